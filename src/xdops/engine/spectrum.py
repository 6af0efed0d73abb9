"""Into the domain, mix channels at every grid point, and back: what the spectral forms have in common.

Where the transformed filters are few, they are made once and the batch goes through in parts that stay in the cache; where they
are many, they are made for some grid points at a time, for the whole batch, or, where the batch is small, not at all. The
transformed input and output are kept for the backward pass unless they are large, in which case they are made again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine import kernels, transforms
from xdops.engine.chains import ChainLayout
from xdops.engine.fused import FusedLayout
from xdops.engine.mixing import FilterGradients, Filters, group_first, group_last
from xdops.engine.passes import Maybe
from xdops.engine.planar import complex_of
from xdops.engine.planes import with_planes
from xdops.engine.pointmixing import PointFilters, PointGradients
from xdops.engine.tapmixing import TapFilters, TapGradients
from xdops.engine.tiled import TiledLayout
from xdops.engine.transforms import Dense, Transform
from xdops.engine.workspace import Workspace, workspace

#: Numbers of transformed input in one part of the batch: what stays in a cache.
PART = 1 << 20

#: Numbers of transformed input and output that are kept for the backward pass; beyond, they are made again.
KEEP = 1 << 24

#: And of one example, in several dimensions, unless they are few for the input and output that they are made from, as in half a
#: domain. A batch can be made smaller, a large map cannot; and all dimensions but the first are transformed once more anyway.
KEEP_EACH, FEW_FOR_INPUT = 1 << 19, 1.75

Transforms = list[Transform]

AnyFilters = Filters | TapFilters | PointFilters

#: How a matrix is given: as stages, as its butterflies' own values, dense for kernels, or, None, dense.
MatrixForm = ChainLayout | FusedLayout | TiledLayout | None


@dataclass(frozen=True)
class Spectrum:
    """Re(K diag(C (L w + b)) M x) as a function of (x, w, b, C, tensors of K, of L, of M).

    x (batch, c_in, m...); w (c_out, c_in/g, k...), or (2, c_out, c_in/g, k...) if complex. All complex tensors are planar: w,
    b (2, n...), C (2, g, c_out/g, c_in/g), and the tensors of K, L and M, cut to the rows and columns in use: (2, rows, columns)
    for a dense matrix, its stages for a chain, its butterflies' values for kernels. Per matrix and dimension a layout says which.
    """

    groups: int
    K: tuple[MatrixForm, ...]
    M: tuple[MatrixForm, ...]
    by_tap: bool  # channels mix tap by tap

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        x, w, b, C, *matrices = tensors
        assert x is not None
        assert w is not None
        space = workspace()
        K, L, M = self._transforms(matrices, [False] * len(matrices), space)
        x = x.contiguous()
        filters, _ = self._filters(w, L, b, C, space)
        y = x.new_empty(x.shape[0], filters.c_out * self.groups, *(A.rows for A in K))
        keep = keep and self._kept(_points(filters) * (x.shape[1] + y.shape[1]), x, y)
        kept = []
        for rows in _batch_parts(x.shape[0], filters):
            part = x[rows]
            entered = transforms.enter_only(_flat(part), _joined(M, part))
            x_hat = group_first(entered.view(2, M[0].rows, -1, *part.shape[:2]), self.groups)
            y_hat = _mixed(x_hat, filters, space)
            transforms.leave(group_last(y_hat, self.groups), _joined(K, y[rows]), y[rows], space)
            if keep:
                kept += [x_hat, y_hat]
        return y, kept

    def _kept(self, each: int, x: Tensor, y: Tensor) -> bool:
        """Whether so many numbers per example are kept for the backward pass."""
        few = len(self.K) == 1 or each <= KEEP_EACH or each * x.shape[0] <= FEW_FOR_INPUT * (x.numel() + y.numel())
        return few and each * x.shape[0] <= KEEP

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        x, w, b, C, *matrices = tensors
        assert x is not None
        assert w is not None
        need_x, need_w, need_b, need_C, *needed = needs
        space, groups = workspace(), self.groups
        x = x.contiguous()
        K, L, M = self._transforms(matrices, needed, space)
        need_K, need_L = _wanted(K), _wanted(L)
        filters, filters_seen = self._filters(w, L, b, C, space)
        collected: FilterGradients | TapGradients | PointGradients
        if isinstance(filters, PointFilters):
            collected = PointGradients(filters, need_w, need_L, need_b, need_C)
        elif isinstance(filters, TapFilters):
            collected = TapGradients(filters, need_w, need_L)
        else:
            collected = FilterGradients(filters, need_w or (need_L and len(L) > 1), need_L, need_b, need_C)
        grad_x = torch.empty_like(x) if need_x else None
        for index, rows in enumerate(_batch_parts(x.shape[0], filters)):
            part = x[rows]
            into, back = _joined(M, part), _joined(K, g[rows])
            if kept:
                x_hat, x_seen = kept[2 * index], None
            else:
                x_hat, x_seen = _transformed_input(part, into, groups, M[0].rows)
            y_seen = place = None
            if need_K:
                y_hat = kept[2 * index + 1] if kept else _mixed(x_hat, filters, space)
                y_seen = transforms.leave_seen(group_last(y_hat, groups), back, space)
                place = None if kept else y_seen[0]  # a gradient takes the place of what it is the gradient of
                del y_hat
            grad_y_hat = transforms.leave_backward(g[rows], y_seen, back, place)
            del y_seen, place
            grad_y_hat = group_first(grad_y_hat.view(2, K[0].columns, -1, part.shape[0], filters.c_out * groups), groups)
            grad_x_hat = space.empty(tuple(x_hat.shape), x_hat)
            collected.collect(grad_y_hat, x_hat, grad_x_hat)
            del grad_y_hat, x_hat
            if x_seen is None:
                x_seen = transforms.enter_seen(_flat(part), into)
            out = None if grad_x is None else _flat(grad_x[rows])
            transforms.enter_backward(group_last(grad_x_hat, groups), x_seen, into, out)
        collected.finish()
        grad_w = _filters_backward(collected, filters_seen, L, need_w)
        return [
            grad_x,
            None if grad_w is None else grad_w.reshape(w.shape),
            None if collected.b is None or b is None else collected.b.view_as(b),
            collected.C,
            *(grad for transform in (*K, *L, *M) for grad in transform.grads),
        ]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        x, w, b, C, *matrices = tensors
        assert x is not None
        assert w is not None
        dims, position = len(self.K), 0
        dense = []
        for layout in (*self.K, *[None] * dims, *self.M):
            count = 1 if layout is None else layout.count
            stages = [t for t in matrices[position : position + count] if t is not None]
            dense.append(complex_of(stages[0] if layout is None else layout.dense(stages)))
            position += count
        return formula(x, w, b, C, dense[:dims], dense[dims : 2 * dims], dense[2 * dims :], self.groups)

    def _transforms(
        self, tensors: Sequence[Maybe], needs: Sequence[bool], space: Workspace
    ) -> tuple[Transforms, Transforms, Transforms]:
        """The transforms of K, L and M from their tensors, in this order."""
        position = 0
        made: list[Transforms] = []
        for layouts in (self.K, (None,) * len(self.K), self.M):
            row: Transforms = []
            for layout in layouts:
                count = 1 if layout is None else layout.count
                part = [t for t in tensors[position : position + count] if t is not None]
                wants = any(needs[position : position + count])
                row.append(Dense(part[0], space, wants) if layout is None else layout.transform(part, space, wants))
                position += count
            made.append(row)
        return made[0], made[1], made[2]

    def _filters(self, w: Tensor, L: Transforms, b: Maybe, C: Maybe, space: Workspace) -> tuple[AnyFilters, list[Tensor]]:
        """All dimensions of the filters but the first into the domain, taps of the first in front; and what every transform saw.

        Or the first dimension alone, where channels are mixed tap by tap.
        """
        c_out, c_in, k = w.shape[-2 - len(L) :][:3]
        first = L[0]
        assert isinstance(first, Dense)
        compiled = kernels.can_run(w.dtype, w.device.type)
        if self.by_tap and (compiled or (b is None and C is None)):
            second = L[1]
            assert isinstance(second, Dense)
            if compiled:
                return PointFilters(w, first.A, second.A, b, C, space), []
            return TapFilters(w, first.A, second.A, space), []
        w = w.reshape(2, -1, w.shape[-1]) if w.dim() == 3 + len(L) else w.reshape(-1, w.shape[-1])
        seen: list[Tensor] = []
        if len(L) == 1:
            partial = w.mT.contiguous()
        else:
            t, seen = transforms.enter(w, L[1:])
            partial = t.view(2, -1, k).mT.contiguous()
        grid_b = None if b is None else b.reshape(2, b.shape[1], -1)
        return Filters(first.A, partial, grid_b, C, self.groups, c_out // self.groups, c_in, space), seen


def formula(
    x: Tensor, w: Tensor, b: Maybe, C: Maybe, K: Sequence[Tensor], L: Sequence[Tensor], M: Sequence[Tensor], groups: int
) -> Tensor:
    """The same from complex dense matrices per dimension, in differentiable complex arithmetic: Definition 3.1 as it stands."""
    x_hat = torch.complex(x, torch.zeros_like(x))
    w_hat = complex_of(w) if w.dim() == 3 + len(K) else torch.complex(w, torch.zeros_like(w))
    for i in range(len(K)):
        x_hat = _apply(M[i], x_hat, 2 + i)
        w_hat = _apply(L[i], w_hat, 2 + i)
    if b is not None:
        w_hat = w_hat + complex_of(b)
    if C is not None:
        w_hat = w_hat * complex_of(C).flatten(0, 1).reshape(*w_hat.shape[:2], *(1 for _ in K))
    x_hat, w_hat = x_hat.unflatten(1, (groups, -1)).flatten(3), w_hat.unflatten(0, (groups, -1)).flatten(3)
    y = torch.einsum("goip,bgip->bgop", w_hat, x_hat).flatten(1, 2).unflatten(-1, [A.shape[1] for A in K])
    for i in range(len(K)):
        y = _apply(K[i], y, 2 + i)
    return y.real


def _apply(A: Tensor, x: Tensor, dim: int) -> Tensor:
    return (x.movedim(dim, -1) @ A.mT).movedim(-1, dim)


def _flat(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])


def _wanted(row: Transforms) -> bool:
    return any(grad is not None for transform in row for grad in transform.grads)


def _batch_parts(batch: int, filters: AnyFilters) -> list[slice]:
    """The batch in parts whose transforms stay in the cache, or whole where every part would have to make the filters anew.

    Kernels make them anew, which is little for as many examples as there are taps, a few times over.
    """
    numbers = 2 * filters.n * filters.rest * max(filters.c_in, filters.c_out)  # for one example
    least = 1 if filters.whole is not None else 4 * filters.k if isinstance(filters, PointFilters) else batch
    parts = -(-batch // max(least, PART // numbers))
    step = -(-batch // parts)
    return [slice(s, min(batch, s + step)) for s in range(0, batch, step)]


def _points(filters: AnyFilters) -> int:
    """Numbers per example and channel."""
    return 2 * filters.n * filters.rest // filters.groups


def _joined(matrices: Transforms, outside: Tensor) -> Transforms:
    """The transforms between the domain and what lies outside, (batch, c, m...): the last two dimensions in one go, if they can."""
    return with_planes(matrices, math.prod(outside.shape[:-2])) if len(matrices) > 1 else matrices


def _transformed_input(x: Tensor, M: Transforms, groups: int, points: int) -> tuple[Tensor, list[Tensor]]:
    """(2, n_1, rest, batch, c_in/g), with n_1 `points`, and what every transform saw."""
    t, seen = transforms.enter(_flat(x), M)
    return group_first(t.view(2, points, -1, *x.shape[:2]), groups), seen


def _mixed(x_hat: Tensor, filters: AnyFilters, space: Workspace) -> Tensor:
    """(2, n_1, rest, batch, c_out/g)."""
    y_hat = space.empty((*x_hat.shape[:-1], filters.c_out), x_hat)
    filters.mix(x_hat, y_hat)
    return y_hat


def _filters_backward(
    collected: FilterGradients | TapGradients | PointGradients, seen: list[Tensor], L: Transforms, need_w: bool
) -> Maybe:
    """The gradient of the filters, shaped as they entered; those of L are left with L."""
    if not isinstance(collected, FilterGradients):
        L[0].grads, L[1].grads = [collected.L_1], [collected.L_2]
        return collected.w
    L[0].grads = [collected.L]
    g = collected.partial
    if g is None:
        return None
    if len(L) == 1:
        return g.mT
    out = g.new_empty(seen[-1].shape) if need_w else None
    transforms.enter_backward(g.mT.contiguous(), seen, L[1:], out)
    return out
