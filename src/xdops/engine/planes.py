"""The last two dimensions as one transform, by kernels: what lies between both never leaves the cache."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from xdops.engine.fused import Fused
from xdops.engine.kernels import threads
from xdops.engine.kernels.applying import PLANES, WIDEST, WIDTH, Integers, Shape, address, factors_of, gradient_room, held_rows
from xdops.engine.transforms import Transform

#: Bytes of the plane between both dimensions, for as many columns as are taken at a time: what stays in a core's own cache. Larger
#: ones, measured, are no faster than one dimension after the other.
PLANE = 400 << 10


def with_planes(transforms: Sequence[Transform], columns: int) -> list[Transform]:
    """The transforms of two or more dimensions, for so many columns, with the last two of them as one where that is faster."""
    *others, first, last = transforms
    if not isinstance(first, Fused) or not isinstance(last, Fused):
        return list(transforms)
    wide = plane_columns(first, last)
    if wide is None or columns < WIDTH * torch.get_num_threads():
        return list(transforms)
    return [*others, Plane(first, last, wide)]


def plane_columns(first: Fused, last: Fused) -> int | None:
    """Columns of a block; None if not even the smallest would stay in the cache."""
    column = 2 * max(first.layout.shape) * last.layout.points * last.values.element_size()
    wide = WIDEST
    while wide > WIDTH and wide * column > PLANE:
        wide //= 2
    return wide if wide * column <= PLANE else None


class Plane(Transform):
    """A `Transform` of planes, (q, m_1 m_2) outside and (2, n_1 n_2, q) in the domain; see there."""

    def __init__(self, first: Fused, last: Fused, wide: int) -> None:
        self.first, self.last, self.wide = first, last, wide
        self.rows, self.columns = first.rows * last.rows, first.columns * last.columns
        self.grads = [*first.grads, *last.grads]

    def enter(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        x = x.contiguous()
        out = self.first.space.empty((2, self.rows, x.numel() // self.columns), x) if out is None else out.view(2, self.rows, -1)
        self._forward(x, out, 1)
        return out

    def leave(self, y: Tensor, out: Tensor) -> Tensor:
        self._forward(out, y.contiguous(), 0)
        return out

    def enter_backward(self, g: Tensor, x: Tensor, out: Tensor | None) -> None:
        if out is not None or self._collects:
            self._backward(x.contiguous(), g.contiguous(), out, 1, self._collects)

    def leave_backward(self, g: Tensor, y: Tensor | None, out: Tensor | None = None) -> Tensor:
        g = g.contiguous()
        out = self.first.space.empty((2, self.columns, g.numel() // self.rows), g) if out is None else out
        self._backward(g, y, out, 0, self._collects and y is not None)
        return out.view(2, self.columns, -1)

    @property
    def _collects(self) -> bool:
        return self.first.collected is not None or self.last.collected is not None

    def _forward(self, planes: Tensor, domain: Tensor, outside: int) -> None:
        from xdops.engine.kernels.transforming import forward

        row, parts, _work = self._row(planes, domain, outside, slots=0)
        forward(planes.dtype, row, parts)

    def _backward(self, planes: Tensor, domain: Tensor | None, out: Tensor | None, outside: int, collect: bool) -> None:
        """planes and domain: a gradient on the side where the matrix ends, and, if there is to be `collect`ed, what it saw."""
        from xdops.engine.kernels.transforming import backward

        slots = max(_steps(f.layout.shapes).rows for f in (self.first, self.last))
        row, parts, _work = self._row(planes, domain, outside, slots)
        row += [0, 0] if out is None else [address(out), out.numel()]
        grads = []
        for fused in (self.first, self.last):
            each = gradient_room(fused.layout.shapes, fused.values) if collect else 0
            grads.append(torch.zeros(parts, each, dtype=planes.dtype, device="cpu"))  # a sum per part
            row += [grads[-1].data_ptr(), each]
        backward(planes.dtype, row, parts)
        for fused, grad in zip((self.first, self.last), grads, strict=True):
            if fused.collected is not None and collect:
                fused.collected += grad.sum(0)

    def _row(self, planes: Tensor, domain: Tensor | None, outside: int, slots: int) -> tuple[list[int], int, Tensor]:
        """What both kernels are told (see there), in how many parts, and the working memory of all of them. outside: 1, where a
        matrix has its inputs there, or 0, its outputs; slots: how many factors' inputs are remembered."""
        first, last = self.first.layout, self.last.layout
        used = [f.part.columns if outside else f.part.rows for f in (first, last)]
        lines, n, size, points = first.shape[outside], first.points, last.shape[outside], last.points
        q = planes.numel() // (len(used[0]) * len(used[1]))
        longest, wide = max(lines, n, size, points), self.wide
        held = max(held_rows(first.shapes), held_rows(last.shapes))
        room = (lines * points + (2 + slots) * longest + held) * 2 * wide
        parts = threads.parts(-(-q // wide))
        work = self.first.space.empty((parts, room), planes)
        shape = _shape(used[0], used[1], lines, n, size, points)
        places = [address(planes), 0 if domain is None else address(domain)]
        row = [PLANES, *places, 1 - outside, shape.address, q, wide, address(work), room]
        for fused in (self.first, self.last):
            steps = _steps(fused.layout.shapes)
            row += [steps.address, steps.rows, address(fused.values)]
        return row, parts, work


@lru_cache(maxsize=512)
def _shape(first: range, last: range, lines: int, n: int, size: int, points: int) -> Integers:
    """Rows of a plane and the step between them in the first matrix, the same of a row's numbers and the last matrix, points of the
    first dimension in the domain, size of the last matrix outside, its points in the domain, size of the first matrix outside."""
    return Integers([len(first), first.step, len(last), last.step, n, size, points, lines])


@lru_cache(maxsize=512)
def _steps(shapes: tuple[Shape, ...]) -> Integers:
    return Integers([(f.kind, f.stride, f.blocks, f.offset) for f in factors_of(shapes)])
