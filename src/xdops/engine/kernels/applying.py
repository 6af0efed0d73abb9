"""A K-matrix on columns, all factors at once: y = A x, and the gradients of x and of the factors, by compiled kernels.

Columns go through the factors 16 at a time, in the cache: `8 n sum(radices)` flops per column and butterfly, nothing between the
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

#: Columns of a block, numbers in a row of it; as in `mixrows` and `butterflies`, which are imported only where numba is.
WIDTH, ROW = 16, 32

#: Flops that are worth a thread: what another one does while this one calls it.
WORTH = 1 << 22

#: Kinds of factors that are no radix.
FOLD, UNFOLD = -1, -2


def _integers(numbers: Any) -> Any:
    """As the kernels take them: an array of numpy's."""
    return torch.tensor(numbers, dtype=torch.int64, device="cpu").numpy()


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
def _numbers(side: Side) -> Any:
    return _integers([side.count, side.step, side.size, side.parts, int(side.turned)])


@lru_cache(maxsize=512)
def factor_steps(shapes: tuple[ButterflyShape, ...]) -> Any:
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
    return _integers(steps)


def working_numbers(steps: Any, x: Side, y: Side, backward: bool) -> int:
    """Numbers of working memory that one thread needs."""
    blocks = len(steps) + 1 if backward else 1
    return blocks * max(x.size, y.size) * ROW + max(1, int(steps[:, 0].max())) * ROW


def multiply(
    shapes: tuple[ButterflyShape, ...], values: Tensor, x: Tensor, x_side: Side, y: Tensor, y_side: Side, space: Workspace
) -> None:
    """y = A x, for the interleaved complex numbers of A's factors, butterfly by butterfly."""
    from xdops.engine.kernels.columns import forward

    steps, q = factor_steps(shapes), _columns(x, x_side)
    ranges = _ranges(q, values, 1)
    work = space.empty((len(ranges), working_numbers(steps, x_side, y_side, False)), x)
    x_, y_, values_, work_ = flat(x), flat(y), flat(values), work.numpy()
    sides = _numbers(x_side), _numbers(y_side)

    def part(i: int) -> None:
        forward(x_, sides[0], y_, sides[1], q, values_, steps, *ranges[i], work_[i])

    threads.run_each(part, len(ranges))


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

    steps, q = factor_steps(shapes), _columns(g, y_side)
    ranges = _ranges(q, values, 1 if x is None else 3)
    work = space.empty((len(ranges), working_numbers(steps, x_side, y_side, True)), g)
    room = 0 if x is None else values.numel() + 2 * 8
    grads = torch.zeros(len(ranges), room, dtype=g.dtype, device="cpu")  # a sum per thread
    nothing = g.new_empty(0)
    g_, x_, out_, values_ = flat(g), flat(nothing if x is None else x), flat(nothing if out is None else out), flat(values)
    work_, grads_, sides = work.numpy(), grads.numpy(), (_numbers(x_side), _numbers(y_side))

    def part(i: int) -> None:
        backward(g_, sides[1], x_, sides[0], out_, q, values_, grads_[i], steps, *ranges[i], work_[i])

    threads.run_each(part, len(ranges))
    return None if x is None else grads.sum(0)[: values.numel()].view_as(values)


def _ranges(q: int, values: Tensor, passes: int) -> list[tuple[int, int]]:
    """Blocks of columns for every thread; a complex entry of the factors takes 8 flops per column and pass."""
    return threads.parts(-(-q // WIDTH), least=-(-WORTH // (passes * 4 * values.numel() * WIDTH)))


def flat(t: Tensor) -> Any:
    """As the kernels take it: all numbers, one after the other."""
    if not t.is_contiguous():
        raise ValueError("kernels see memory as it lies: the tensor has to be contiguous")
    return t.detach().view(-1).numpy()


def _columns(t: Tensor, side: Side) -> int:
    return t.numel() // (side.parts * (side.count if side.turned else side.size))


def joined_values(values: Sequence[Tensor]) -> Tensor:
    """The numbers of all butterflies, as the kernels take them."""
    return values[0].reshape(-1) if len(values) == 1 else torch.cat([v.reshape(-1) for v in values])
