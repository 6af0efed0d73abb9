"""Grouped K-matrices: a few block-diagonal matrices with blocks of about sqrt(n), applied as batched products.

The n points of a dimension are digits (d_0, d_1, ...), highest stride first; the factors of a butterfly are merged into one
stage per digit. A stage mixes one digit by its own r x r matrix at every value of the others: one batched product, whose result
has that digit last. So digits rotate through memory and are never copied; only the way into this layout, and out of it, is a
copy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine.planar import adjoint, complex_of
from xdops.engine.workspace import Workspace


@dataclass(frozen=True)
class ChainLayout:
    """`sequence`: which digit each stage mixes, first to last. Half a matrix has half the highest digit on one side."""

    digits: tuple[int, ...]  # of the input, highest stride first
    out: tuple[int, ...]  # of the output
    sequence: tuple[int, ...]
    rows: tuple[int, int]  # (step, count): rows 0, step, ...
    columns: int  # the first so many

    @property
    def count(self) -> int:
        """How many tensors."""
        return len(self.sequence)

    def transform(self, stages: Sequence[Tensor], space: Workspace, wants_grad: bool) -> "Chain":
        return Chain(self, stages, space, wants_grad)

    def dense(self, stages: Sequence[Tensor]) -> Tensor:
        return dense_chain(self, stages)


class Chain:
    """Stages (2, *digits without the mixed one, r, r), planar, applied in the order of the layout."""

    def __init__(self, layout: ChainLayout, stages: Sequence[Tensor], space: Workspace, wants_grad: bool = False) -> None:
        self.layout, self.stages, self.space = layout, stages, space
        self.n, self.n_out = math.prod(layout.digits), math.prod(layout.out)
        self.grads: list[Tensor | None] = [torch.zeros_like(s) if wants_grad else None for s in stages]
        self.rows, self.columns = layout.rows[1], layout.columns
        self.seen: list[tuple[Tensor, list[int]]] = []

    def enter(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        return self._natural_in(out, *self._forward(self._columns_in(x), out=out))

    def prepare(self, x: Tensor) -> None:
        self._forward(self._columns_in(x), skip_last=True)

    def forget(self) -> None:
        self.seen = []

    def leave(self, y: Tensor, out: Tensor) -> Tensor:
        t, order = y.view(2, *self.layout.digits, -1), list(range(len(self.layout.digits)))
        for i, (digit, stage) in enumerate(zip(self.layout.sequence, self.stages, strict=True)):
            parts = 1 if out.dim() == 2 and i == len(self.stages) - 1 else 2
            t, order = self._stage(stage, digit, t, order, parts)
        self._copy(t, order, out, self.layout.rows)
        return out

    def enter_backward(self, g: Tensor, x: Tensor, out: Tensor | None) -> None:
        # `enter` ran last with this very input, so what its stages saw is still known.
        t, order = self._backward(g.view(2, *self.layout.out, -1), self.seen[0][0], stop=out is None)
        if out is not None:
            parts = t[:1] if out.dim() == 2 else t
            self._copy(parts, order, out, (1, self.columns))
        self.forget()

    def leave_backward(self, g: Tensor, y: Tensor | None, out: Tensor | None = None) -> Tensor:
        parts = g.view(-1, *g.shape[-2:])
        placed = self.space.empty((parts.shape[0], self.n_out, parts.shape[1]), g)
        step, count = self.layout.rows
        if step * count < self.n_out or step > 1:
            placed.zero_()
        if step == 1:
            _turn(parts, placed[:, :count])
        else:
            placed[:, : step * count : step] = parts.mT
        if y is not None and any(grad is not None for grad in self.grads):  # the inputs of all stages, again
            self._forward(y.view(2, *self.layout.digits, -1), skip_last=True)
        result = self._natural_in(out, *self._backward(placed.view(-1, *self.layout.out, parts.shape[1]), out))
        self.forget()
        return result

    def _columns_in(self, x: Tensor) -> Tensor:
        """(q, m) or (2, q, m) -> (1 or 2, *digits, q): the one copy on the way in."""
        self.forget()
        parts = x.view(-1, *x.shape[-2:])
        placed = self.space.empty((parts.shape[0], self.n, parts.shape[1]), x)
        _turn(parts, placed[:, : self.columns])
        if self.columns < self.n:
            placed[:, self.columns :].zero_()
        return placed.view(-1, *self.layout.digits, parts.shape[1])

    def _copy(self, t: Tensor, order: list[int], out: Tensor, rows: tuple[int, int]) -> None:
        """(parts, digits in `order`, q) -> (q, rows) or (2, q, rows): the one copy on the way out."""
        natural, out = self._natural(t, order), out.view(-1, *out.shape[-2:])
        step, count = rows
        if step == 1:
            _turn(natural[:, :count], out)
        else:
            out.copy_(natural[:, : step * count : step].mT)

    def _natural(self, t: Tensor, order: list[int]) -> Tensor:
        """(parts, digits in `order`, q) -> (parts, n, q); nothing to do after a decreasing butterfly."""
        if order != sorted(order):
            natural = t.permute(0, *(1 + order.index(d) for d in range(len(order))), t.dim() - 1)
            t = self.space.empty(tuple(natural.shape), t).copy_(natural)
        return t.view(t.shape[0], math.prod(t.shape[1:-1]), -1)

    def _natural_in(self, out: Tensor | None, t: Tensor, order: list[int]) -> Tensor:
        """The same in out, if it is given: there the last stage has left t."""
        natural = self._natural(t, order)
        return natural if out is None or order == sorted(order) else out.view_as(natural).copy_(natural)

    def _forward(self, t: Tensor, skip_last: bool = False, out: Tensor | None = None) -> tuple[Tensor, list[int]]:
        """Through all stages, remembering what each saw."""
        order = list(range(len(self.layout.digits)))
        self.seen = []
        for i, (digit, stage) in enumerate(zip(self.layout.sequence, self.stages, strict=True)):
            self.seen.append((t, order))
            last = i == len(self.stages) - 1
            if last and skip_last:
                return t, order
            t, order = self._stage(stage, digit, t, order, 2, out if last else None)
        return t, order

    def _backward(self, g: Tensor, out: Tensor | None, stop: bool = False) -> tuple[Tensor, list[int]]:
        """Back through all stages with their adjoints; a missing imaginary part of g is zero.

        The gradient of what a stage saw takes its place in memory; that of the chain's input goes to out, if it is given.
        """
        order = list(range(len(self.layout.digits)))
        for i in range(len(self.stages) - 1, -1, -1):
            digit, stage = self.layout.sequence[i], self.stages[i]
            if (grad := self.grads[i]) is not None:
                _stage_gradient(grad, digit, g, order, *self.seen[i])
            if i == 0 and stop:
                return g, order
            parts = self.seen[i][0].shape[0] if self.seen else 2
            into = out if i == 0 else self.seen[i][0] if self.seen else None
            g, order = self._stage(adjoint(stage), digit, g, order, parts, into)
        return g, order

    def _stage(
        self, stage: Tensor, digit: int, t: Tensor, order: list[int], parts: int, into: Tensor | None = None
    ) -> tuple[Tensor, list[int]]:
        """Mix one digit of t (1 or 2, digits in `order`, q); the result has that digit last. parts 1: the real part is enough."""
        rest = [d for d in order if d != digit]
        T = _ordered(stage, rest)  # (2, *rest, r, r)
        x = t.movedim(1 + order.index(digit), -2)  # (1 or 2, *rest, r, q)
        shape = (parts, *T.shape[1:-1], t.shape[-1])
        out = self.space.empty(shape, t) if into is None else into.view(shape)
        for Tv, xv, ov in zip(_flat(T), _flat(x), _flat(out), strict=True):
            torch.bmm(Tv[0], xv[0], out=ov[0])
            if parts == 2:
                torch.bmm(Tv[1], xv[0], out=ov[1])
            if xv.shape[0] == 2:
                ov[0].baddbmm_(Tv[1], xv[1], alpha=-1)
                if parts == 2:
                    ov[1].baddbmm_(Tv[0], xv[1])
        return out, [*rest, digit]


def _turn(source: Tensor, out: Tensor) -> None:
    """out = source^T for every part: as flat matrices, for which torch has a blocked transpose."""
    for s, o in zip(source, out, strict=True):
        o.copy_(s.t())


def _stage_gradient(grad: Tensor, digit: int, g: Tensor, g_order: list[int], x: Tensor, x_order: list[int]) -> None:
    """grad += g x^H at every value of the other digits."""
    natural = [d for d in range(len(g_order)) if d != digit]

    def arranged(t: Tensor, order: list[int]) -> Tensor:
        return t.permute(0, *(1 + order.index(d) for d in (*natural, digit)), t.dim() - 1)

    for gv, xv, out in zip(_flat(arranged(g, g_order)), _flat(arranged(x, x_order)), _flat(grad), strict=True):
        out[0].baddbmm_(gv[0], xv[0].mT)
        if gv.shape[0] == 2:
            out[1].baddbmm_(gv[1], xv[0].mT)
        if xv.shape[0] == 2:
            out[1].baddbmm_(gv[0], xv[1].mT, alpha=-1)
            if gv.shape[0] == 2:
                out[0].baddbmm_(gv[1], xv[1].mT)


def _ordered(stage: Tensor, rest: list[int]) -> Tensor:
    """The stage's matrices with the other digits in the order that they have in memory."""
    natural = sorted(rest)
    return stage.permute(0, *(1 + natural.index(d) for d in rest), stage.dim() - 2, stage.dim() - 1)


def _flat(t: Tensor) -> list[Tensor]:
    """(p, *rest, r, q) as views (p, batch, r, q): one for up to two digits, one per value of the first for three."""
    if t.dim() == 3:
        return [t[:, None]]
    if t.dim() == 4:
        return [t]
    return [part.flatten(1, -3) if part.dim() > 4 else part for part in t.unbind(1)]


def dense_chain(layout: ChainLayout, stages: Sequence[Tensor]) -> Tensor:
    """The chain as one dense planar matrix (2, rows, columns), differentiable."""
    n = math.prod(layout.digits)
    t = torch.eye(n, dtype=torch.complex64 if stages[0].dtype == torch.float32 else torch.complex128, device=stages[0].device)
    t = t.reshape(*layout.digits, n)
    for digit, stage in zip(layout.sequence, stages, strict=True):
        t = (complex_of(stage) @ t.movedim(digit, -2)).movedim(-2, digit)
    step, count = layout.rows
    dense = t.reshape(-1, n)[: step * count : step, : layout.columns]
    return torch.stack((dense.real, dense.imag))
