"""K-matrices that are never merged: compiled kernels take blocks of columns through all their factors, in the cache.

`8 n sum(radices)` flops per column and butterfly, whatever the depth: O(n log n).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from xdops.engine.geometry import Part
from xdops.engine.kernels.applying import ButterflyShape, Shape, Side, gradient_room, joined_values, multiply, multiply_backward
from xdops.engine.passes import Maybe, compute
from xdops.engine.planar import planar
from xdops.engine.transforms import Transform
from xdops.engine.workspace import Workspace
from xdops.matrices import KMatrix
from xdops.matrices.half import HalfButterfly
from xdops.matrices.learnable import ButterflyLayout, assemble


@dataclass(frozen=True)
class FusedLayout:
    """A K-matrix without its numbers, and which of its rows and columns are in use; its tensors are the butterflies' values."""

    butterflies: tuple[ButterflyLayout, ...]
    shape: tuple[int, int]
    part: Part

    @staticmethod
    def of(matrix: KMatrix, part: Part) -> "FusedLayout":
        layout = tuple((b.radices, b.increasing, isinstance(b, HalfButterfly)) for b in matrix.butterflies)
        return FusedLayout(layout, (matrix.shape[0], matrix.shape[1]), part)

    @property
    def count(self) -> int:
        """How many tensors."""
        return len(self.butterflies)

    @property
    def points(self) -> int:
        """Of the domain."""
        return min(self.shape)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(ButterflyShape(*layout) for layout in self.butterflies)

    def transform(self, values: Sequence[Tensor], space: Workspace, wants_grad: bool) -> "Fused":
        return Fused(self, values, space, wants_grad)

    def dense(self, values: Sequence[Tensor]) -> Tensor:
        """Planar (2, rows, columns), differentiable."""
        rows, columns = self.part.rows, self.part.columns
        dense = assemble(self.butterflies, values).to_dense()
        return planar(dense[rows.start : rows.stop : rows.step, columns.start : columns.stop : columns.step])


class KernelLayout(Protocol):
    """A matrix for kernels, without its numbers. shape: of all that kernels go through; part: what of it is in use."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def part(self) -> Part: ...

    @property
    def points(self) -> int: ...

    @property
    def shapes(self) -> tuple[Shape, ...]: ...


class Fused(Transform):
    """A `Transform`; see there."""

    def __init__(self, layout: KernelLayout, values: Sequence[Tensor], space: Workspace, wants_grad: bool) -> None:
        self.layout, self.space = layout, space
        self.values = joined_values(values)
        self.rows, self.columns = len(layout.part.rows), len(layout.part.columns)
        room = gradient_room(layout.shapes, self.values)
        self.collected = self.values.new_zeros(room) if wants_grad else None
        self.grads: list[Tensor | None] = [None] * len(values) if self.collected is None else self._parts(self.collected, values)

    def _parts(self, collected: Tensor, values: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients of the values, of which kernels know as one row of numbers."""
        parts = collected[: self.values.numel()].split([v.numel() for v in values])
        return [part.view_as(v) for part, v in zip(parts, values, strict=True)]

    def enter(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        x = x.contiguous()
        out = self.space.empty((2, self.rows, x.shape[-2]), x) if out is None else out.view(2, self.rows, -1)
        multiply(self.layout.shapes, self.values, x, self._outside(x, 1), out, self._domain(0), self.space)
        return out

    def leave(self, y: Tensor, out: Tensor) -> Tensor:
        multiply(self.layout.shapes, self.values, y.contiguous(), self._domain(1), out, self._outside(out, 0), self.space)
        return out

    def enter_backward(self, g: Tensor, x: Tensor, out: Tensor | None) -> None:
        self._back(g.contiguous(), self._domain(0), x.contiguous(), self._outside(x, 1), out)

    def leave_backward(self, g: Tensor, y: Tensor | None, out: Tensor | None = None) -> Tensor:
        g = g.contiguous()
        out = self.space.empty((2, self.columns, g.shape[-2]), g) if out is None else out
        self._back(g, self._outside(g, 0), y, self._domain(1), out)
        return out.view(2, self.columns, -1)

    def _back(self, g: Tensor, y_side: Side, x: Tensor | None, x_side: Side, out: Tensor | None) -> None:
        seen = x if self.collected is not None else None
        if seen is None and out is None:
            return
        grad = multiply_backward(self.layout.shapes, self.values, g, y_side, seen, x_side, out, self.space)
        if grad is not None and self.collected is not None:
            self.collected += grad

    def _domain(self, side: int) -> Side:
        """All rows, or columns, with those of the input next to each other."""
        return Side(self.layout.shape[side], self.layout.shape[side], turned=False)

    def _outside(self, t: Tensor, side: int) -> Side:
        """t (q, count) or (2, q, count) on the matrix's input (1) or output (0) side."""
        used = self.layout.part.columns if side else self.layout.part.rows
        return Side(self.layout.shape[side], len(used), used.step, t.dim() - 1)


@dataclass(frozen=True)
class FusedMatrices:
    """The columns in use of K-matrices, planar (2, rows, columns) each, one after the other: what they make of unit vectors.

    A function of all their butterflies' values. See `Passes`.
    """

    layouts: tuple[FusedLayout, ...]

    @property
    def sizes(self) -> list[int]:
        return [2 * layout.shape[0] * len(layout.part.columns) for layout in self.layouts]

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        made, space = self._own(tensors), Workspace()
        out = made[0][0].new_empty(sum(self.sizes))
        for layout, own, part in zip(self.layouts, made, out.split(self.sizes), strict=True):
            Fused(layout, own, space, False).enter(_units(layout, part), part.view(2, layout.shape[0], -1))
        return out, []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        grads: list[Maybe] = []
        space, g = Workspace(), g.contiguous()
        for layout, own, part in zip(self.layouts, self._own(tensors), g.split(self.sizes), strict=True):
            transform = Fused(layout, own, space, True)
            transform.enter_backward(part.view(2, layout.shape[0], -1), _units(layout, part), None)
            grads += transform.grads
        return [grad if need else None for grad, need in zip(grads, needs, strict=True)]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        pairs = zip(self.layouts, self._own(tensors), strict=True)
        return torch.cat([layout.dense(own).reshape(-1) for layout, own in pairs])

    def _own(self, tensors: Sequence[Maybe]) -> list[list[Tensor]]:
        """The values of each."""
        present = iter([t for t in tensors if t is not None])
        return [[next(present) for _ in range(layout.count)] for layout in self.layouts]


def _units(layout: FusedLayout, like: Tensor) -> Tensor:
    return torch.eye(len(layout.part.columns), dtype=like.dtype, device=like.device)


def fused_matrices(matrices: Sequence[KMatrix], parts: Sequence[Part]) -> list[Tensor]:
    """The rows and columns of K-matrices that are in use, (2, rows, columns) each, by kernels."""
    layouts = [FusedLayout.of(A, Part(range(A.shape[0]), part.columns)) for A, part in zip(matrices, parts, strict=True)]
    passes = FusedMatrices(tuple(layouts))
    made = compute(passes, *(b.values for A in matrices for b in A.butterflies)).split(passes.sizes)
    return [
        dense.view(2, layout.shape[0], -1)[:, part.rows.start : part.rows.stop : part.rows.step].contiguous()
        for dense, layout, part in zip(made, layouts, parts, strict=True)
    ]
