"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So where there are kernels, all of it is one node in torch's graph; elsewhere it is torch's own products.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xdops.engine.kernels import can_run
from xdops.matrices import KMatrix
from xdops.matrices.pairs import to_complex
from xdops.matrices.radices import strides_of

#: (radices, increasing) of every butterfly of K, L and M, in the order they are applied.
Layouts = tuple[tuple[tuple[tuple[int, ...], bool], ...], ...]


def tap_rows(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n)."""
    values = [b.values for m in (K, L, M) for b in m.butterflies]
    if torch.compiler.is_compiling() or not can_run(values[0].dtype, values[0].device.type):
        return tap_rows_by_torch(row, taps, K, L, M)
    layouts = tuple(tuple((b.radices, b.increasing) for b in m.butterflies) for m in (K, L, M))
    pairs: Tensor = _TapRows.apply(row, taps, layouts, torch.cat(values))
    return to_complex(pairs)


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and for any transformation of torch's."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))


class _TapRows(torch.autograd.Function):
    """From all butterflies' values one after the other, as real pairs (taps, n, 2)."""

    @staticmethod
    def forward(ctx: Any, row: int, taps: int, layouts: Layouts, values: Tensor) -> Tensor:
        from xdops.engine.kernels.few_vectors import through

        numbers = _numbers(values)
        stages = stages_of(layouts)
        n = int(np.prod(layouts[0][0][0]))
        k, columns = np.zeros((1, n), numbers.dtype), np.zeros((taps, n), numbers.dtype)
        k[0, row] = 1
        columns[range(taps), range(taps)] = 1
        seen = [np.empty((len(s), count, n), numbers.dtype) for s, count in zip(stages, (1, taps, taps), strict=True)]
        through(stages[0], numbers, k, seen[0])
        through(stages[1], numbers, columns, seen[1])
        rows = k * columns
        through(stages[2], numbers, rows, seen[2])
        ctx.save_for_backward(values)
        ctx.stages, ctx.k, ctx.columns, ctx.seen = stages, k, columns, seen
        return _pairs(rows, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from xdops.engine.kernels.few_vectors import back

        (values,) = ctx.saved_tensors
        numbers = _numbers(values)
        found, given = np.zeros_like(numbers), np.empty(ctx.k.shape[1], numbers.dtype)
        g = _numbers(gradients[0]).copy()
        back(ctx.stages[2], numbers, ctx.seen[2], g, given, found)
        back(ctx.stages[1], numbers, ctx.seen[1], g * ctx.k.conj(), given, found)
        back(ctx.stages[0], numbers, ctx.seen[0], (g * ctx.columns.conj()).sum(0, keepdims=True), given, found)
        return None, None, None, _pairs(found, values)


@lru_cache(maxsize=256)
def stages_of(layouts: Layouts) -> tuple[np.ndarray, ...]:
    """The stages, see `xdops.engine.kernels.few_vectors`, of K transposed, of L, and of M transposed."""
    found, start = [], 0
    for layout, transposed in zip(layouts, (True, False, True), strict=True):
        butterflies = []
        for radices, increasing in layout:
            n, own = int(np.prod(radices)), []
            for r, s in zip(radices, strides_of(radices), strict=True):
                own.append((start, n // (r * s), s, r, int(transposed)))
                start += n * r
            butterflies.append(own if increasing != transposed else own[::-1])
        order = butterflies[::-1] if transposed else butterflies
        found.append(np.array([stage for own in order for stage in own], dtype=np.int64))
    return tuple(found)


def _numbers(pairs: Tensor) -> np.ndarray:
    """Pairs (..., 2) as complex numbers (...)."""
    dtype = np.complex128 if pairs.dtype == torch.float64 else np.complex64
    return pairs.detach().contiguous().numpy().view(dtype)[..., 0]


def _pairs(numbers: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(numbers[..., None].view(np.float64 if like.dtype == torch.float64 else np.float32))
