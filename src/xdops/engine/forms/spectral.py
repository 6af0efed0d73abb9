"""The spectral form: into the domain, mix channels at every grid point, and back, as one autograd function.

Where the transformed filters are few, they are made once and the batch goes through in parts that stay in the cache; where they
are many, they are made for some grid points at a time, for the whole batch, or, where the batch is small, not at all. The
transformed input and output are kept for the backward pass unless they are large, in which case they are made again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xdops.engine import transforms
from xdops.engine.chains import Chain, ChainLayout, dense_chain
from xdops.engine.mixing import FilterGradients, Filters, group_first, group_last
from xdops.engine.tapmixing import TapFilters, TapGradients
from xdops.engine.transforms import Dense, Transform
from xdops.engine.workspace import Lease, scratch

#: Numbers of transformed input in one part of the batch: what stays in a cache.
PART = 1 << 20

#: Numbers of transformed input and output that are kept for the backward pass; beyond, they are made again.
KEEP = 1 << 24


@dataclass(frozen=True)
class Layout:
    """What is not a tensor: channel groups; per K, L, M and dimension how its matrix is given, None for dense; how channels mix."""

    groups: int
    K: tuple[ChainLayout | None, ...]
    L: tuple[ChainLayout | None, ...]
    M: tuple[ChainLayout | None, ...]
    by_tap: bool

    def transforms(
        self, tensors: Sequence[Tensor], needs: Sequence[bool]
    ) -> tuple[list[Transform], list[Transform], list[Transform]]:
        """The transforms of K, L and M from their tensors, in this order."""
        position, made = 0, []
        for layouts in (self.K, self.L, self.M):
            row: list[Transform] = []
            for layout in layouts:
                count = 1 if layout is None else len(layout.sequence)
                part, wants = tensors[position : position + count], any(needs[position : position + count])
                row.append(Dense(part[0], wants) if layout is None else Chain(layout, part, wants))
                position += count
            made.append(row)
        return made[0], made[1], made[2]


class Spectral(torch.autograd.Function):
    """Re(K diag(C (L w + b)) M x) for x (batch, c_in, m...) and w (c_out, c_in/g, k...), or (2, c_out, c_in/g, k...) if complex.

    All complex tensors are planar: w, b (2, n...), C (2, g, c_out/g, c_in/g), and the tensors of K, L and M, cut to the rows and
    columns in use: (2, rows, columns) for a dense matrix, its stages for a chain.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, C: Tensor | None, layout: Layout, *tensors: Tensor) -> Tensor:
        K, L, M = layout.transforms(tensors, [False] * len(tensors))
        x = x.contiguous()
        filters, _ = _filters(w, L, b, C, layout)
        y = x.new_empty(x.shape[0], filters.c_out * layout.groups, *(A.rows for A in K))
        ctx.leases = []
        few = _points(filters) * x.shape[0] * (x.shape[1] + y.shape[1]) <= KEEP
        keep = few and any(ctx.needs_input_grad) and not torch.compiler.is_compiling()
        for rows in _batch_parts(x.shape[0], filters):
            kept_x = kept_y = None
            if keep:
                shape = (2, filters.n, filters.rest, rows.stop - rows.start)
                ctx.leases.append((Lease((*shape, filters.c_in), x), Lease((*shape, filters.c_out), x)))
                kept_x, kept_y = ctx.leases[-1][0].tensor, ctx.leases[-1][1].tensor
            x_hat, _ = _transformed_input(x[rows], M, layout.groups, kept_x)
            y_hat = _mixed(x_hat, filters, kept_y)
            transforms.leave(group_last(y_hat, layout.groups), K, y[rows], "y")
        ctx.layout = layout
        ctx.save_for_backward(x, w, b, C, *tensors)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w, b, C, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: differentiate the plain formula
            return _differentiable_backward(ctx, grads[0], x, w, b, C, tensors)
        need_x, need_w, need_b, need_C, _, *needs = ctx.needs_input_grad
        groups = ctx.layout.groups
        K, L, M = ctx.layout.transforms(tensors, needs)
        need_K, need_L = _wanted(K), _wanted(L)
        filters, filters_seen = _filters(w, L, b, C, ctx.layout)
        collected: FilterGradients | TapGradients
        if isinstance(filters, TapFilters):
            collected = TapGradients(filters, need_w, need_L)
        else:
            collected = FilterGradients(filters, need_w or (need_L and len(L) > 1), need_L, need_b, need_C)
        grad_x = torch.empty_like(x) if need_x else None
        for index, rows in enumerate(_batch_parts(x.shape[0], filters)):
            if ctx.leases:
                x_hat, x_seen = ctx.leases[index][0].tensor, None
            else:
                x_hat, x_seen = _transformed_input(x[rows], M, groups)
            y_seen = place = None
            if need_K:
                y_hat = ctx.leases[index][1].tensor if ctx.leases else _mixed(x_hat, filters)
                y_seen = transforms.leave_seen(group_last(y_hat, groups), K, "y")
                place = None if ctx.leases else y_seen[0]  # a gradient takes the place of what it is the gradient of
            g = transforms.leave_backward(grads[0][rows], y_seen, K, "y", place)
            g = group_first(g.view(2, K[0].columns, -1, rows.stop - rows.start, filters.c_out * groups), groups)
            grad_x_hat = scratch("mixed back", tuple(x_hat.shape), x_hat)
            collected.collect(g, x_hat, grad_x_hat)
            if x_seen is None:
                x_seen = transforms.enter_seen(_flat(x[rows]), M, "x")
            out = None if grad_x is None else _flat(grad_x[rows])
            transforms.enter_backward(group_last(grad_x_hat, groups), x_seen, M, out, "x")
        collected.finish()
        grad_w = _filters_backward(collected, filters_seen, L, need_w)
        return (
            grad_x,
            None if grad_w is None else grad_w.reshape(w.shape),
            None if collected.b is None else collected.b.view_as(b),
            collected.C,
            None,
            *(grad for transform in (*K, *L, *M) for grad in transform.grads),
        )


def infer(w: Tensor, b: Tensor | None, C: Tensor | None, layout: Layout, *tensors: Tensor) -> Callable[[Tensor], Tensor]:
    """The same function of x alone, with the filters transformed once and for all where they are few enough to keep."""
    K, L, M = layout.transforms(tensors, [False] * len(tensors))
    filters, _ = _filters(w, L, b, C, layout)
    if filters.whole is not None:
        filters.whole = filters.whole.clone()  # out of the scratch memory

    def run(x: Tensor) -> Tensor:
        x = x.contiguous()
        y = x.new_empty(x.shape[0], filters.c_out * layout.groups, *(A.rows for A in K))
        for rows in _batch_parts(x.shape[0], filters):
            y_hat = _mixed(_transformed_input(x[rows], M, layout.groups)[0], filters)
            transforms.leave(group_last(y_hat, layout.groups), K, y[rows], "y")
        return y

    return run


def _flat(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])


def _wanted(row: Sequence[Transform]) -> bool:
    return any(grad is not None for transform in row for grad in transform.grads)


def _batch_parts(batch: int, filters: Filters | TapFilters) -> list[slice]:
    """The batch in parts whose transforms stay in the cache, or whole where every part would have to make the filters anew."""
    numbers = 2 * filters.n * filters.rest * max(filters.c_in, filters.c_out)  # for one example
    parts = 1 if filters.whole is None else -(-batch // max(1, PART // numbers))
    step = -(-batch // parts)
    return [slice(s, min(batch, s + step)) for s in range(0, batch, step)]


def _points(filters: Filters | TapFilters) -> int:
    """Numbers per example and channel."""
    return 2 * filters.n * filters.rest // filters.groups


def _transformed_input(x: Tensor, M: Sequence[Transform], groups: int, out: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """(2, n_1, rest, batch, c_in/g), in scratch memory or in out, and what every transform saw."""
    t, seen = transforms.enter(_flat(x), M, "x", out if groups == 1 else None)
    x_hat = group_first(t.view(2, M[0].rows, -1, *x.shape[:2]), groups)
    return (x_hat if out is None or groups == 1 else out.copy_(x_hat)), seen


def _mixed(x_hat: Tensor, filters: Filters | TapFilters, out: Tensor | None = None) -> Tensor:
    """(2, n_1, rest, batch, c_out/g), in scratch memory or in out."""
    y_hat = scratch("mixed", (*x_hat.shape[:-1], filters.c_out), x_hat) if out is None else out
    filters.mix(x_hat, y_hat)
    return y_hat


def _filters(
    w: Tensor, L: Sequence[Transform], b: Tensor | None, C: Tensor | None, layout: Layout
) -> tuple[Filters | TapFilters, list[Tensor]]:
    """All dimensions of the filters but the first into the domain, taps of the first in front; and what every transform saw.

    Or the first dimension alone, where channels are mixed tap by tap.
    """
    c_out, c_in, k = w.shape[-2 - len(L) :][:3]
    first = L[0]
    assert isinstance(first, Dense)
    if layout.by_tap:
        second = L[1]
        assert isinstance(second, Dense)
        return TapFilters(w, first.A, second.A), []
    w = w.reshape(2, -1, w.shape[-1]) if w.dim() == 3 + len(L) else w.reshape(-1, w.shape[-1])
    seen: list[Tensor] = []
    if len(L) == 1:
        partial = w.mT.contiguous()
    else:
        t, seen = transforms.enter(w, L[1:], "w")
        partial = t.view(2, -1, k).mT.contiguous()
    grid_b = None if b is None else b.reshape(2, b.shape[1], -1)
    return Filters(first.A, partial, grid_b, C, layout.groups, c_out // layout.groups, c_in), seen


def _filters_backward(
    collected: FilterGradients | TapGradients, seen: list[Tensor], L: Sequence[Transform], need_w: bool
) -> Tensor | None:
    """The gradient of the filters, shaped as they entered; those of L are left with L."""
    if isinstance(collected, TapGradients):
        L[0].grads, L[1].grads = [collected.L_1], [collected.L_2]
        return collected.w
    L[0].grads = [collected.L]
    g = collected.partial
    if g is None:
        return None
    if len(L) == 1:
        return g.mT
    out = g.new_empty(seen[-1].shape) if need_w else None
    transforms.enter_backward(g.mT.contiguous(), seen, L[1:], out, "w")
    return out


def plain(x: Tensor, w: Tensor, b: Tensor | None, C: Tensor | None, layout: Layout, *tensors: Tensor) -> Tensor:
    """The same function in differentiable complex arithmetic."""
    K, L, M = (
        [torch.complex(*(dense_chain(T.layout, T.stages) if isinstance(T, Chain) else T.A).unbind()) for T in row]  # type: ignore[attr-defined]
        for row in layout.transforms(tensors, [False] * len(tensors))
    )
    groups = layout.groups
    x_hat = torch.complex(x, torch.zeros_like(x))
    w_hat = torch.complex(w[0], w[1]) if w.dim() == 3 + len(K) else torch.complex(w, torch.zeros_like(w))
    for i in range(len(K)):
        x_hat = _apply(M[i], x_hat, 2 + i)
        w_hat = _apply(L[i], w_hat, 2 + i)
    if b is not None:
        w_hat = w_hat + torch.complex(b[0], b[1])
    if C is not None:
        w_hat = w_hat * torch.complex(C[0], C[1]).flatten(0, 1).reshape(*w_hat.shape[:2], *(1 for _ in K))
    x_hat, w_hat = x_hat.unflatten(1, (groups, -1)).flatten(3), w_hat.unflatten(0, (groups, -1)).flatten(3)
    y = torch.einsum("goip,bgip->bgop", w_hat, x_hat).flatten(1, 2).unflatten(-1, [A.shape[1] for A in K])
    for i in range(len(K)):
        y = _apply(K[i], y, 2 + i)
    return y.real


def _apply(A: Tensor, x: Tensor, dim: int) -> Tensor:
    return (x.movedim(dim, -1) @ A.mT).movedim(-1, dim)


def _differentiable_backward(
    ctx: Any, g: Tensor, x: Tensor, w: Tensor, b: Tensor | None, C: Tensor | None, tensors: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    inputs = [x, w, b, C, ctx.layout, *tensors]
    wanted = [i for i, need in enumerate(ctx.needs_input_grad) if need]
    grads = torch.autograd.grad(plain(*inputs), [inputs[i] for i in wanted], g, create_graph=True, allow_unused=True)
    out: list[Tensor | None] = [None] * len(inputs)
    for i, grad in zip(wanted, grads, strict=True):
        out[i] = grad
    return tuple(out)
