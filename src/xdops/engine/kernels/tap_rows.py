"""Row r of K diag(L[:, j]) M for every tap j, with numba: one node in torch's graph, one call per matrix."""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from xdops.engine.kernels.few_vectors import back, through
from xdops.matrices.radices import strides_of

#: (radices, increasing) of every butterfly of K, L and M, in the order they are applied.
Layouts = tuple[tuple[tuple[tuple[int, ...], bool], ...], ...]


def tap_row_pairs(row: int, taps: int, layouts: Layouts, values: Tensor) -> Tensor:
    """values: of all butterflies, one after the other. Returns real pairs, (taps, n, 2)."""
    pairs: Tensor = _TapRows.apply(row, taps, layouts, values)
    return pairs


class _TapRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, row: int, taps: int, layouts: Layouts, values: Tensor) -> Tensor:
        numbers, stages = torch.view_as_complex(values.detach()), stages_of(layouts)
        n = math.prod(layouts[0][0][0])
        k, columns = numbers.new_zeros(1, n), torch.eye(taps, n, dtype=numbers.dtype)
        k[0, row] = 1
        seen = [numbers.new_empty(len(s), count, n) for s, count in zip(stages, (1, taps, taps), strict=True)]
        through(stages[0].numpy(), numbers.numpy(), k.numpy(), seen[0].numpy())
        through(stages[1].numpy(), numbers.numpy(), columns.numpy(), seen[1].numpy())
        rows = k * columns
        through(stages[2].numpy(), numbers.numpy(), rows.numpy(), seen[2].numpy())
        ctx.save_for_backward(numbers, k, columns, *seen)
        ctx.stages = stages
        return torch.view_as_real(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        numbers, k, columns, *seen = ctx.saved_tensors
        found, scratch = torch.zeros_like(numbers), torch.empty_like(k[0])
        g = torch.view_as_complex(gradients[0].contiguous()).resolve_conj().clone()

        def through_back(i: int, slope: Tensor) -> None:
            back(ctx.stages[i].numpy(), numbers.numpy(), seen[i].numpy(), slope.numpy(), scratch.numpy(), found.numpy())

        through_back(2, g)
        through_back(1, (g * k.conj()).resolve_conj())
        through_back(0, (g * columns.conj()).sum(0, keepdim=True).resolve_conj())
        return None, None, None, torch.view_as_real(found)


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
        found.append(torch.tensor([stage for own in order for stage in own]))
    return tuple(found)
