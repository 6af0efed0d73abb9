"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So on a CPU forward and backward are numpy, factor by factor, with one node in torch's graph; elsewhere they are torch's own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xdops.matrices import KMatrix
from xdops.matrices.pairs import to_complex
from xdops.matrices.radices import strides_of

#: (radices, increasing) of every butterfly of a matrix, in the order they are applied.
Layout = tuple[tuple[tuple[int, ...], bool], ...]


def tap_rows(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n)."""
    values = [b.values for m in (K, L, M) for b in m.butterflies]
    if values[0].device.type != "cpu" or torch.compiler.is_compiling():
        return tap_rows_by_torch(row, taps, K, L, M)
    layouts = tuple(tuple((b.radices, b.increasing) for b in m.butterflies) for m in (K, L, M))
    pairs: Tensor = _TapRows.apply(row, taps, layouts, *values)
    return to_complex(pairs)


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and for any transformation of torch's."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))


class _TapRows(torch.autograd.Function):
    """As real pairs, (taps, n, 2)."""

    @staticmethod
    def forward(ctx: Any, row: int, taps: int, layouts: tuple[Layout, Layout, Layout], *values: Tensor) -> Tensor:
        ctx.save_for_backward(*values)
        ctx.row, ctx.taps, ctx.layouts = row, taps, layouts
        return torch.from_numpy(_Passes(row, taps, layouts, values).rows.view(_real(values)).reshape(taps, -1, 2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values = ctx.saved_tensors
        g = gradients[0].contiguous().numpy().view(_complex(values))[..., 0]
        found = _Passes(ctx.row, ctx.taps, ctx.layouts, values).backward(g)  # forward again: cheaper than to keep and find it
        return None, None, None, *(torch.from_numpy(f.view(_real(values)).reshape(-1, 2)) for f in found)


class _Passes:
    """All three matrices on their vectors, with what a backward pass needs."""

    def __init__(self, row: int, taps: int, layouts: tuple[Layout, Layout, Layout], values: Sequence[Tensor]) -> None:
        numbers = iter([v.detach().contiguous().numpy().view(_complex(values))[:, 0] for v in values])
        K, L, M = ([(next(numbers), *shape) for shape in layout] for layout in layouts)
        n = int(np.prod(layouts[0][0][0]))
        unit = np.eye(n, dtype=_complex(values))
        self.K, self.L, self.M = _Chain(K, True), _Chain(L, False), _Chain(M, True)
        self.k, self.columns = self.K.forward(unit[row : row + 1]), self.L.forward(unit[:taps])
        self.rows = self.M.forward(self.k * self.columns)

    def backward(self, g: np.ndarray) -> list[np.ndarray]:
        g = self.M.backward(g)
        self.K.backward((g * self.columns.conj()).sum(0, keepdims=True))
        self.L.backward(g * self.k.conj())
        return [*self.K.gradients, *self.L.gradients, *self.M.gradients]


class _Chain:
    """A K-matrix, or its transpose, on vectors (count, n)."""

    def __init__(self, butterflies: Sequence[tuple[np.ndarray, tuple[int, ...], bool]], transposed: bool) -> None:
        self.values = [values for values, _, _ in butterflies]
        self.gradients: list[np.ndarray] = [np.empty(0)] * len(butterflies)
        self.stages: list[tuple[int, int, np.ndarray]] = []  # butterfly, where its factor begins, (blocks, i, l, stride)
        for i in reversed(range(len(butterflies))) if transposed else range(len(butterflies)):
            values, radices, increasing = butterflies[i]
            n, start, own = int(np.prod(radices)), 0, []
            for r, s in zip(radices, strides_of(radices), strict=True):
                axes = (0, 3, 2, 1) if transposed else (0, 2, 3, 1)
                own.append((i, start, values[start : start + n * r].reshape(-1, s, r, r).transpose(axes)))
                start += n * r
            self.stages += own if increasing != transposed else own[::-1]
        self.transposed = transposed
        self.seen: list[np.ndarray] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Factor by factor: y[b, i, s] = sum_l T[b, i, l, s] x[b, l, s]."""
        count = len(x)
        for _, _, T in self.stages:
            x = x.reshape(count, T.shape[0], 1, T.shape[2], T.shape[3])
            self.seen.append(x)
            x = (T * x).sum(3)
        return np.ascontiguousarray(x.reshape(count, -1))

    def backward(self, g: np.ndarray) -> np.ndarray:
        """The gradient of the vectors; those of the factors are kept, in the layout of their values."""
        count = len(g)
        self.gradients = [np.empty_like(values) for values in self.values]
        for (i, start, T), x in zip(reversed(self.stages), reversed(self.seen), strict=True):
            blocks, r, _, s = T.shape
            g = g.reshape(count, blocks, r, 1, s)
            place = self.gradients[i][start : start + T.size].reshape(blocks, s, r, r)
            slope = (g * x.conj()).sum(0)  # (blocks, i, l, stride)
            place[...] = slope.transpose(0, 3, 2, 1) if self.transposed else slope.transpose(0, 3, 1, 2)
            g = (T.conj() * g).sum(2)
        return np.ascontiguousarray(g.reshape(count, -1))


def _real(values: Sequence[Tensor]) -> type[np.floating]:
    return np.float64 if values[0].dtype == torch.float64 else np.float32


def _complex(values: Sequence[Tensor]) -> type[np.complexfloating]:
    return np.complex128 if values[0].dtype == torch.float64 else np.complex64
