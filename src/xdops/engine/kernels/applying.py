"""A K-matrix on columns, all factors at once: y = A x, and the gradients of x and of the factors, by compiled kernels.

Columns go through the factors some at a time, in the cache: `8 n sum(radices)` flops per column and butterfly, nothing between the
factors in memory, no copy before or after them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from xdops.engine.kernels import threads
from xdops.engine.workspace import Workspace

#: Columns of a block: the more, the less is done for each matrix of a factor; the least is what the kernels' vectors hold.
WIDEST, WIDTH = 64, 16

#: Bytes of a block that stays in the cache with the others of a backward pass, one for every factor.
BLOCK = 80 << 10

#: Flops that are worth a thread: what another one does while this one calls it.
WORTH = 1 << 22

#: Kinds of factors that are no radix.
FOLD, UNFOLD = -1, -2


class Integers:
    """Whole numbers where kernels find them, by their address."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self.tensor = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        self.address, self.rows = self.tensor.data_ptr(), len(numbers)


@dataclass(frozen=True)
class ButterflyShape:
    """Radices in order of stride; a half one is (n/2, n) or (n, n/2), without the other half of its numbers."""

    radices: tuple[int, ...]
    increasing: bool
    half: bool = False


@dataclass(frozen=True)
class Side:
    """Where a matrix's inputs or outputs lie in memory.

    Turned: (q, count), real, if parts is 1, or (2, q, count): rows 0, step, 2 step, ... of `size`. Not turned: (2, size, q).
    """

    size: int
    count: int
    step: int = 1
    parts: int = 2
    turned: bool = True


@lru_cache(maxsize=512)
def _numbers(side: Side) -> Integers:
    return Integers([side.count, side.step, side.size, side.parts, int(side.turned)])


@lru_cache(maxsize=512)
def factor_steps(shapes: tuple[ButterflyShape, ...]) -> Integers:
    """(kind, stride, blocks, offset) of every factor, in the order they are applied."""
    steps: list[tuple[int, int, int, int]] = []
    offset = 0
    for shape in shapes:
        radices = shape.radices[:-1] if shape.half else shape.radices
        points = math.prod(radices)
        stride, own = 1, []
        for r in radices:
            own.append((r, stride, points // (r * stride), offset))
            offset += 2 * points * r
            stride *= r
        if shape.half:
            own.append((UNFOLD if shape.increasing else FOLD, points, 1, offset))
            offset += 4 * points
        steps += own if shape.increasing else own[::-1]
    return Integers(steps)


def block_columns(size: int, itemsize: int) -> int:
    """Columns of a block with so many rows."""
    wide = WIDEST
    while wide > WIDTH and 2 * size * wide * itemsize > BLOCK:
        wide //= 2
    return wide


def multiply(
    shapes: tuple[ButterflyShape, ...], values: Tensor, x: Tensor, x_side: Side, y: Tensor, y_side: Side, space: Workspace
) -> None:
    """y = A x, for the interleaved complex numbers of A's factors, butterfly by butterfly."""
    from xdops.engine.kernels.columns import forward

    row, parts, _work = _row(shapes, values, x, x_side, y, y_side, space, blocks=1, passes=1)
    forward(x.dtype, row, parts)


def multiply_backward(
    shapes: tuple[ButterflyShape, ...],
    values: Tensor,
    g: Tensor,
    y_side: Side,
    x: Tensor | None,
    x_side: Side,
    out: Tensor | None,
    space: Workspace,
) -> Tensor | None:
    """From the gradient g of y: that of x into out, which may be x, if it is given; that of the values, if x is given."""
    from xdops.engine.kernels.columns import backward

    blocks = factor_steps(shapes).rows + 1
    row, parts, _work = _row(shapes, values, x, x_side, g, y_side, space, blocks, passes=1 if x is None else 3)
    room = 0 if x is None else values.numel() + 2 * 8
    grads = torch.zeros(parts, room, dtype=g.dtype, device="cpu")  # a sum per part
    row += [0, 0] if out is None else [address(out), out.numel()]
    backward(g.dtype, [*row, grads.data_ptr(), room], parts)
    return None if x is None else grads.sum(0)[: values.numel()].view_as(values)


def _row(
    shapes: tuple[ButterflyShape, ...],
    values: Tensor,
    x: Tensor | None,
    x_side: Side,
    y: Tensor,
    y_side: Side,
    space: Workspace,
    blocks: int,
    passes: int,
) -> tuple[list[int], int, Tensor]:
    """What both kernels are told (see there), in how many parts, and working memory of so many blocks for each."""
    steps, size = factor_steps(shapes), max(x_side.size, y_side.size)
    q, wide = _columns(y, y_side), block_columns(size, y.element_size())
    # A complex entry of the factors takes 8 flops per column and pass.
    parts = threads.parts(-(-q // wide), least=-(-WORTH // (passes * 4 * values.numel() * wide)))
    largest = max(max(shape.radices) for shape in shapes)
    room = (blocks * size + largest) * 2 * wide
    work = space.empty((parts, room), y)
    row = [
        0 if x is None else address(x), _numbers(x_side).address, address(y), _numbers(y_side).address, q,
        address(values), steps.address, steps.rows, address(work), room, wide,
    ]  # fmt: skip
    return row, parts, work


def address(t: Tensor) -> int:
    """For kernels, which see memory as it lies."""
    if not t.is_contiguous() or t.is_neg():
        raise ValueError("kernels see memory as it lies: the tensor has to be contiguous, and its signs to be there")
    return t.data_ptr()


def _columns(t: Tensor, side: Side) -> int:
    return t.numel() // (side.parts * (side.count if side.turned else side.size))


def joined_values(values: Sequence[Tensor]) -> Tensor:
    """The numbers of all butterflies, as the kernels take them."""
    return values[0].reshape(-1) if len(values) == 1 else torch.cat([v.reshape(-1) for v in values])
