"""Many small K-matrices into dense ones at once: `matrices.merge` for a stack of decreasing butterflies, in planar arithmetic.

Merging is elementwise, new[(i,o),(l,c)] = old_i[o,c] t[c,i,l], level by level; this function writes every level once and has its
own backward pass, because for layers of a few hundred points the calls cost more than the arithmetic.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class MergeStack(torch.autograd.Function):
    """Factors in order of stride, each (2, count, blocks, stride, r, r), of decreasing butterflies -> (2, count, n, n)."""

    @staticmethod
    def forward(ctx: Any, *factors: Tensor) -> Tensor:
        merged = factors[0][:, :, :, 0].contiguous()  # (2, count, blocks, r, r)
        kept = []
        for factor in factors[1:]:
            t, old = _expanded(factor, merged)
            kept += [t, old]
            new = factor.new_empty(2, *torch.broadcast_shapes(t.shape[1:], old.shape[1:]))
            torch.mul(old[0], t[0], out=new[0]).addcmul_(old[1], t[1], value=-1)
            torch.mul(old[0], t[1], out=new[1]).addcmul_(old[1], t[0])
            _, _, blocks, done, r, _ = factor.shape
            merged = new.view(2, factor.shape[1], blocks, r * done, r * done)
        ctx.shapes = [f.shape for f in factors]
        ctx.save_for_backward(*factors, *kept)
        return merged[:, :, 0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        factors, kept = ctx.saved_tensors[: len(ctx.shapes)], ctx.saved_tensors[len(ctx.shapes) :]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: differentiate the plain formula
            return torch.autograd.grad(plain_merge(factors), factors, grads[0], create_graph=True)
        g = grads[0].contiguous()
        out: list[Tensor] = []
        for level in range(len(ctx.shapes) - 1, 0, -1):
            _, count, blocks, done, r, _ = ctx.shapes[level]
            t, old = kept[2 * level - 2], kept[2 * level - 1]
            g = g.view(2, count, blocks, r, done, r, done)  # (i, o, l, c)
            out.insert(0, _conjugate_product(g, old, dim=3).permute(0, 1, 2, 5, 3, 4))  # sum over o -> (c, i, l)
            g = _conjugate_product(g, t, dim=4)  # sum over l -> (i, o, c)
            g = g.view(2, count, blocks * r, done, done)
        first = ctx.shapes[0]
        out.insert(0, g.view(first[0], first[1], first[2], 1, first[4], first[5]))
        return tuple(out)


def plain_merge(factors: Sequence[Tensor]) -> Tensor:
    """The same in differentiable steps."""
    merged = factors[0][:, :, :, 0]
    for factor in factors[1:]:
        t, old = _expanded(factor, merged.contiguous())
        new = torch.stack((old[0] * t[0] - old[1] * t[1], old[0] * t[1] + old[1] * t[0]))
        _, count, blocks, done, r, _ = factor.shape
        merged = new.reshape(2, count, blocks, r * done, r * done)
    return merged[:, :, 0]


def _expanded(factor: Tensor, merged: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of a level's product with their dimensions lined up: (2, count, blocks, i, o, l, c)."""
    _, count, blocks, done, r, _ = factor.shape
    t = factor.permute(0, 1, 2, 4, 5, 3).contiguous()[:, :, :, :, None]
    return t, merged.view(2, count, blocks, r, done, 1, done)


def _conjugate_product(g: Tensor, v: Tensor, dim: int) -> Tensor:
    """sum of g conj(v) over one dimension (counted without the planar one)."""
    real = (g[0] * v[0]).addcmul_(g[1], v[1]).sum(dim)
    imaginary = (g[1] * v[0]).addcmul_(g[0], v[1], value=-1).sum(dim)
    return torch.stack((real, imaginary))
