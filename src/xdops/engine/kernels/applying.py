"""A K-matrix on columns, all factors at once: y = A x, and the gradients of x and of the factors, by compiled kernels.

Columns go through the factors some at a time, in the cache: `8 n sum(radices)` flops per column and butterfly, nothing between the
factors in memory, no copy before or after them.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from xdops.engine.kernels import threads
from xdops.engine.workspace import Workspace

#: Columns of a block: the more, the less is done for each matrix of a factor; the least is what the kernels' vectors hold.
WIDEST, WIDTH = 64, 16

#: What rows are rounded up to where vectors lie across them.
LANES = 8

#: Bytes of a block, unless it is one of many rows; of one that is worth being cut into chunks of rows, which costs a second way
#: through some factors; and of a chunk.
BLOCK, LARGE, CHUNK = 80 << 10, 120 << 10, 32 << 10

#: Flops that are worth a thread: what another one does while this one calls it.
WORTH = 1 << 22

#: The first word of a kernel.
COLUMNS, PLANES = 0, 1

#: Kinds of factors that are no radix.
FOLD, UNFOLD, DENSE = -1, -2, -3


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
class DenseShape:
    """A matrix that is no butterfly."""

    rows: int
    columns: int

    @property
    def radices(self) -> tuple[int, ...]:
        return (max(self.rows, self.columns),)

    @property
    def line(self) -> int:
        """Numbers of a row of its gradient, of which the first `columns` mean something."""
        return self.columns + -self.columns % LANES


Shape = ButterflyShape | DenseShape


@lru_cache(maxsize=512)
def held_rows(shapes: tuple[Shape, ...]) -> int:
    """Rows that kernels put aside while they are at one matrix of a factor."""
    largest = max(max(shape.radices) for shape in shapes)
    return largest + -largest % LANES


def gradient_room(shapes: tuple[Shape, ...], values: Tensor) -> int:
    """Numbers of a gradient of the values and of what kernels write behind it; that of a dense matrix is planar, in lines."""
    only = shapes[0]
    return 2 * only.rows * only.line if isinstance(only, DenseShape) else values.numel() + 2 * LANES


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


@dataclass(frozen=True)
class Factor:
    """kind is the radix, or FOLD or UNFOLD; its matrices begin at `offset` among the numbers of all butterflies. A DENSE one has
    its numbers of rows and columns for stride and blocks."""

    kind: int
    stride: int
    blocks: int
    offset: int

    def fits(self, chunk: int) -> bool:
        """Whether a chunk of so many rows is all that each of its rows needs, and rows are several such chunks."""
        extent = self.kind * self.stride
        return self.kind > 0 and chunk % extent == 0 and self.blocks * extent % chunk == 0 and self.blocks * extent > chunk


def factors_of(shapes: tuple[Shape, ...]) -> list[Factor]:
    """In the order they are applied."""
    factors: list[Factor] = []
    offset = 0
    for shape in shapes:
        if isinstance(shape, DenseShape):
            factors.append(Factor(DENSE, shape.rows, shape.columns, offset))
            offset += 2 * shape.rows * shape.columns
            continue
        radices = shape.radices[:-1] if shape.half else shape.radices
        points = math.prod(radices)
        stride, own = 1, []
        for r in radices:
            own.append(Factor(r, stride, points // (r * stride), offset))
            offset += 2 * points * r
            stride *= r
        if shape.half:
            own.append(Factor(UNFOLD if shape.increasing else FOLD, points, 1, offset))
            offset += 4 * points
        factors += own if shape.increasing else own[::-1]
    return factors


@dataclass(frozen=True)
class Steps:
    """How kernels go through the factors of a K-matrix.

    factors: a row (kind, stride, blocks, offset, place of what it sees, whether a chunk has a place of its own) each. runs: rows
    (first factor, last one, chunks, rows of a chunk, rows of working memory in all): a run of factors goes through one chunk of
    rows after the other, which stays in the cache for all of them. Places are counted in rows.
    """

    factors: Integers
    runs: Integers
    rows: int  # of working memory in a backward pass


@lru_cache(maxsize=512)
def steps_of(shapes: tuple[Shape, ...], size: int, row_bytes: int) -> Steps:
    factors = factors_of(shapes)
    chunk = chunk_rows(shapes, size, row_bytes)
    keys = [(f.fits(chunk), f.blocks * f.kind * f.stride if f.fits(chunk) else 0) for f in factors]
    starts = [0, *(j for j in range(1, len(keys)) if keys[j] != keys[j - 1]), len(keys)]
    inner_most = max([last - first for first, last in pairwise(starts) if keys[first][0]], default=0)
    whole = sum(1 if chunked else last - first for first, last in pairwise(starts) for chunked in [keys[first][0]])
    inner, total = size * (1 + whole), size * (1 + whole) + chunk * inner_most
    table, runs, place = [], [], size
    for first, last in pairwise(starts):
        chunked, points = keys[first]
        for j in range(first, last):
            own = chunked and j > first
            at = inner + (j - first - 1) * chunk if own else place
            place += 0 if own else size
            f = factors[j]
            table.append((f.kind, f.stride, f.blocks, f.offset, at, int(own)))
        runs.append((first, last, points // chunk if chunked else 1, chunk if chunked else size, total))
    return Steps(Integers(table), Integers(runs), total)


def chunk_rows(shapes: tuple[Shape, ...], size: int, row_bytes: int) -> int:
    """Rows of a chunk: as many as stay in the smallest cache, where blocks are too large for the next."""
    if size * row_bytes <= LARGE:
        return 1
    first = shapes[0]
    radices = first.radices[:-1] if isinstance(first, ButterflyShape) and first.half else first.radices
    fitting = [c for c in accumulate(radices, operator.mul) if c * row_bytes <= CHUNK]
    return max(fitting, default=1)


def block_columns(size: int, itemsize: int) -> int:
    """Columns of a block with so many rows."""
    wide = WIDEST
    while wide > WIDTH and 2 * size * wide * itemsize > BLOCK:
        wide //= 2
    return wide


def multiply(shapes: tuple[Shape, ...], values: Tensor, x: Tensor, x_side: Side, y: Tensor, y_side: Side, space: Workspace) -> None:
    """y = A x, for the interleaved complex numbers of A's factors, butterfly by butterfly."""
    from xdops.engine.kernels.transforming import forward

    row, parts, _work = _row(shapes, values, x, x_side, y, y_side, space, backward=False)
    forward(x.dtype, row, parts)


def multiply_backward(
    shapes: tuple[Shape, ...],
    values: Tensor,
    g: Tensor,
    y_side: Side,
    x: Tensor | None,
    x_side: Side,
    out: Tensor | None,
    space: Workspace,
) -> Tensor | None:
    """From the gradient g of y: that of x into out, which may be x, if it is given; that of the values, if x is given, in its
    `gradient_room`."""
    from xdops.engine.kernels.transforming import backward

    row, parts, _work = _row(shapes, values, x, x_side, g, y_side, space, backward=True)
    room = 0 if x is None else gradient_room(shapes, values)
    grads = torch.zeros(parts, room, dtype=g.dtype, device="cpu")  # a sum per part
    row += [0, 0] if out is None else [address(out), out.numel()]
    backward(g.dtype, [*row, grads.data_ptr(), room], parts)
    return None if x is None else grads.sum(0)


def _row(
    shapes: tuple[Shape, ...],
    values: Tensor,
    x: Tensor | None,
    x_side: Side,
    y: Tensor,
    y_side: Side,
    space: Workspace,
    backward: bool,
) -> tuple[list[int], int, Tensor]:
    """What both kernels are told (see there), in how many parts, and the working memory of all of them."""
    q, size = _columns(y, y_side), max(x_side.size, y_side.size)
    wide = block_columns(size, y.element_size())
    steps = steps_of(shapes, size, 2 * wide * y.element_size())
    passes = 3 if backward and x is not None else 1
    # A complex entry of the factors takes 8 flops per column and pass.
    parts = threads.parts(-(-q // wide), least=-(-WORTH // (passes * 4 * values.numel() * wide)))
    room = ((steps.rows if backward else size) + held_rows(shapes)) * 2 * wide
    work = space.empty((parts, room), y)
    row = [
        COLUMNS, 0 if x is None else address(x), _numbers(x_side).address, address(y), _numbers(y_side).address, q,
        address(values), steps.factors.address, steps.factors.rows, address(work), room, wide,
        steps.runs.address, steps.runs.rows,
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
