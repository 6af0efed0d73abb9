"""Many small K-matrices into dense ones at once: `matrices.blocks` for a stack of decreasing butterflies, in planar arithmetic.

Merging is elementwise, new[(i,o),(l,c)] = old_i[o,c] t[c,i,l], level by level; every level is written once and the backward pass
is our own, because for layers of a few hundred points the calls cost more than the arithmetic.
"""

from collections.abc import Sequence

from torch import Tensor

from xdops.engine.passes import Maybe, compute
from xdops.engine.planar import conjugate_sum, multiply, product


def merge_stack(factors: Sequence[Tensor]) -> Tensor:
    """Factors in order of stride, each (2, count, blocks, stride, r, r), of decreasing butterflies -> (2, count, n, n).

    Of half butterflies the last factor is the fold, (2, count, 1, n/2, 1, 2), and the result (2, count, n/2, n).
    """
    return compute(_MergeStack(), *factors)


class _MergeStack:
    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        factors = [f for f in tensors if f is not None]
        merged = factors[0][:, :, :, 0].contiguous()  # (2, count, blocks, r, r)
        kept = []
        for factor in factors[1:]:
            t, old = _expanded(factor, merged)
            kept += [t, old]
            merged = _next(factor, product(old, t))
        return merged[:, :, 0], kept if keep else []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        shapes = [f.shape for f in tensors if f is not None]
        g = g.contiguous()
        out: list[Maybe] = []
        for level in range(len(shapes) - 1, 0, -1):
            _, count, blocks, done, rows, columns = shapes[level]
            t, old = kept[2 * level - 2], kept[2 * level - 1]
            g = g.view(2, count, blocks, rows, done, columns, done)  # (i, o, l, c)
            out.insert(0, conjugate_sum(g, old, dim=3).permute(0, 1, 2, 5, 3, 4))  # sum over o -> (c, i, l)
            g = conjugate_sum(g, t, dim=4)  # sum over l -> (i, o, c)
            g = g.view(2, count, blocks * rows, done, done)
        first = shapes[0]
        out.insert(0, g.view(first[0], first[1], first[2], 1, first[4], first[5]))
        return out

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        factors = [f for f in tensors if f is not None]
        merged = factors[0][:, :, :, 0]
        for factor in factors[1:]:
            t, old = _expanded(factor, merged.contiguous())
            merged = _next(factor, multiply(old, t))
        return merged[:, :, 0]


def _next(factor: Tensor, new: Tensor) -> Tensor:
    _, count, blocks, done, rows, columns = factor.shape
    return new.reshape(2, count, blocks, rows * done, columns * done)


def _expanded(factor: Tensor, merged: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of a level's product with their dimensions lined up: (2, count, blocks, i, o, l, c)."""
    _, count, blocks, done, rows, _ = factor.shape
    t = factor.permute(0, 1, 2, 4, 5, 3).contiguous()[:, :, :, :, None]
    return t, merged.view(2, count, blocks, rows, done, 1, done)
