"""Row r of K diag(L[:, j]) M for every tap j, with numba: one node in torch's graph, one call per matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from xdops.engine.kernels.few_vectors import back, through
from xdops.engine.passes import Maybe, compute
from xdops.engine.tap_rows import tap_rows_by_torch
from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.pairs import to_complex, to_pairs
from xdops.matrices.radices import strides_of

#: (radices, increasing) of every butterfly of K, L and M, in the order they are applied.
Layouts = tuple[tuple[tuple[tuple[int, ...], bool], ...], ...]


def tap_rows_by_kernel(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """Complex, (taps, n)."""
    matrices = (K, L, M)
    layouts = tuple(tuple((b.radices, b.increasing) for b in m.butterflies) for m in matrices)
    values = torch.cat([b.values for m in matrices for b in m.butterflies])
    return to_complex(compute(_TapRows(row, taps, layouts), values))


@dataclass(frozen=True)
class _TapRows:
    """The passes of a function of the values of all butterflies, one after the other, to real pairs (taps, n, 2)."""

    row: int
    taps: int
    layouts: Layouts

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        [values] = tensors
        assert values is not None
        numbers, stages = torch.view_as_complex(values.detach()), stages_of(self.layouts)
        n = math.prod(self.layouts[0][0][0])
        k, columns = numbers.new_zeros(1, n), torch.eye(self.taps, n, dtype=numbers.dtype, device="cpu")
        k[0, self.row] = 1
        seen = [numbers.new_empty(len(s), count, n) for s, count in zip(stages, (1, self.taps, self.taps), strict=True)]
        through(numbers.numpy(), stages[0].numpy(), k.numpy(), seen[0].numpy())
        through(numbers.numpy(), stages[1].numpy(), columns.numpy(), seen[1].numpy())
        rows = k * columns
        through(numbers.numpy(), stages[2].numpy(), rows.numpy(), seen[2].numpy())
        return torch.view_as_real(rows), [k, columns, *seen] if keep else []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        [values], [k, columns, *seen] = tensors, kept
        assert values is not None
        numbers, stages = torch.view_as_complex(values.detach()), stages_of(self.layouts)
        found, scratch = torch.zeros_like(numbers), torch.empty_like(k[0])
        slopes = torch.view_as_complex(g.contiguous()).resolve_conj().clone()

        def through_back(i: int, slope: Tensor) -> None:
            back(numbers.numpy(), stages[i].numpy(), seen[i].numpy(), slope.numpy(), scratch.numpy(), found.numpy())

        through_back(2, slopes)
        through_back(1, (slopes * k.conj()).resolve_conj())
        through_back(0, (slopes * columns.conj()).sum(0, keepdim=True).resolve_conj())
        return [torch.view_as_real(found)]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        [values] = tensors
        assert values is not None
        sizes = [Butterfly.entries(radices) for layout in self.layouts for radices, _ in layout]
        parts = iter(values.split(sizes))
        K, L, M = (KMatrix([Butterfly(next(parts), *shape) for shape in layout]) for layout in self.layouts)
        return to_pairs(tap_rows_by_torch(self.row, self.taps, K, L, M))


@lru_cache(maxsize=256)
def stages_of(layouts: Layouts) -> tuple[Tensor, ...]:
    """The stages, see `xdops.engine.kernels.few_vectors`, of K transposed, of L, and of M transposed."""
    found, start = [], 0
    for layout, transposed in zip(layouts, (True, False, True), strict=True):
        butterflies = []
        for radices, increasing in layout:
            n, own = math.prod(radices), []
            for r, s in zip(radices, strides_of(radices), strict=True):
                own.append((start, n // (r * s), s, r, int(transposed)))
                start += n * r
            butterflies.append(own if increasing != transposed else own[::-1])
        order = butterflies[::-1] if transposed else butterflies
        found.append(torch.tensor([stage for own in order for stage in own], device="cpu"))
    return tuple(found)
