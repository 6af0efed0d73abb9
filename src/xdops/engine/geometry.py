"""Where inputs and outputs sit on an operation's grid: which rows and columns of K, L and M an evaluation touches."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Line:
    """One dimension of n points. Inputs stand at columns 0, step, 2 step, ... of M; outputs are rows 0, stride, ... of K."""

    size: int  # n
    step: int = 1  # columns of M from one input to the next: a transposed convolution's stride
    stride: int = 1  # rows of K from one output to the next
    growth: int = 0  # outputs at stride 1, less the columns that the inputs span
    pad: tuple[int, int] = (0, 0)  # explicit padding, for modes that zeros cannot give
    wraps: bool = False  # a circular axis whose period is n itself: no padding, but inputs are exactly n long
    wrap_pad: tuple[int, int] = (0, 0)  # the circular padding that a shorter input to a wrapping axis needs

    def out(self, m: int) -> int:
        """((m - 1) step + growth) // stride + 1 outputs for m inputs."""
        return ((m - 1) * self.step + self.growth) // self.stride + 1

    def padding(self, m: int) -> tuple[int, int]:
        """Explicit padding for an input of length m."""
        return self.wrap_pad if self.wraps and m != self.size else self.pad

    def rows(self, m: int) -> range:
        """The rows of K that are outputs."""
        return range(0, self.out(m) * self.stride, self.stride)

    def columns(self, m: int) -> range:
        """The columns of M that see an input; on a wrapping axis padding starts before column 0."""
        if self.wraps and m != self.size:
            return range(self.size)
        return range(0, (m + sum(self.padding(m))) * self.step, self.step)

    @property
    def numbers(self) -> tuple[object, ...]:
        """What makes it again: Line(*numbers)."""
        return self.size, self.step, self.stride, self.growth, self.pad, self.wraps, self.wrap_pad


@dataclass(frozen=True)
class Part:
    """Which rows and columns of a matrix are in use."""

    rows: range
    columns: range


@dataclass(frozen=True)
class Geometry:
    """Where inputs of given lengths meet the matrices, per dimension."""

    rows: tuple[range, ...]  # of K
    columns: tuple[range, ...]  # of M
    placed: bool  # inputs are put at their columns first, because they start before column 0


@lru_cache(maxsize=1024)
def geometry(lines: tuple[Line, ...], lengths: tuple[int, ...]) -> Geometry:
    pairs = list(zip(lines, lengths, strict=True))
    return Geometry(
        tuple(line.rows(m) for line, m in pairs),
        tuple(line.columns(m) for line, m in pairs),
        any(line.wraps and m != line.size for line, m in pairs),
    )


def paddings(x: Tensor, lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Explicit padding of every dimension."""
    return [line.padding(m) for m, line in zip(x.shape[2:], lines, strict=True)]


def pad(x: Tensor, lines: Sequence[Line], mode: str) -> Tensor:
    """Explicit padding, where the mode is one that zeros at unused columns cannot give."""
    amounts = paddings(x, lines)
    if not any(sum(p) for p in amounts):
        return x
    return F.pad(x, [p for low_high in reversed(amounts) for p in low_high], mode=mode)


def place(x: Tensor, lines: Sequence[Line], lengths: Sequence[int]) -> Tensor:
    """Padded inputs of original `lengths` at columns 0, step, 2 step, ...; on a wrapping axis padding starts before column 0."""
    for dim, (line, m) in enumerate(zip(lines, lengths, strict=True), start=2):
        if line.step > 1:
            spaced = x.new_zeros(*x.shape[: dim + 1], line.step, *x.shape[dim + 1 :])
            spaced = torch.cat((x.unsqueeze(dim + 1), spaced.narrow(dim + 1, 0, line.step - 1)), dim=dim + 1)
            x = spaced.flatten(dim, dim + 1).narrow(dim, 0, (x.shape[dim] - 1) * line.step + 1)
        if line.wraps and m != line.size:
            fill = (0, 0) * (x.dim() - 1 - dim) + (0, line.size - x.shape[dim])
            x = F.pad(x, fill).roll(-line.wrap_pad[0], dims=dim)
    return x
