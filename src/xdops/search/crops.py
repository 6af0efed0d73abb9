"""Random windows of large examples: inputs, targets on the same grid, and masks are cut alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from xdops.arguments import check_fields
from xdops.errors import XDError
from xdops.search.examples import Batch, Examples


@dataclass(frozen=True)
class Crops:
    """Windows of `size`, drawn anew in every step from examples that are as if they had `margin` zeros on every side.

    What lies outside an example is zero in inputs and targets, and does not count; an example that a window holds whole begins
    `margin` from its corner. Targets that do not lie on the inputs' grid, e.g. classes, stay as they are. Every window weighs the
    same. Without a generator, examples come as they are.
    """

    examples: Examples
    size: tuple[int, ...]
    margin: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        dims = self.examples.batch(torch.zeros(1, dtype=torch.long)).x.dim() - 2
        if len(self.size) != dims or min(self.size) < 1 or self.margin < 0:
            raise XDError(
                f"crops of {' x '.join(map(str, self.size))} with a margin of {self.margin}, from a grid of {dims} dimensions",
                f"{dims} positive sizes and a margin of at least 0",
                f"size={(64,) * dims}, margin=0",
            )

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        if generator is None:
            return self.examples.batch(indices)
        windows, masked = [], False
        for index in indices.split(1):
            one = self.examples.batch(index)
            masked |= one.mask is not None
            windows.append(self._window(one, generator))
        x, y = torch.cat([w.x for w in windows]), torch.cat([w.y for w in windows])
        if windows[0].mask is None:
            return Batch(x, y)
        mask = torch.cat([w.mask for w in windows if w.mask is not None])
        return Batch(x, y, mask) if masked or not bool(mask.all()) else Batch(x, y.movedim(-1, 1))

    def _window(self, one: Batch, generator: Generator) -> Batch:
        """Of a single example; targets on the grid with their channels last, and a mask."""
        sides = one.x.shape[2:]
        start = [draw_start(side, size, self.margin, generator) for side, size in zip(sides, self.size, strict=True)]
        x, y, mask = cut(one.x, start, self.size, 2), one.y, one.mask
        if mask is None:
            if y.dim() != one.x.dim() or y.shape[2:] != sides:
                return Batch(x, y)
            y, mask = y.movedim(1, -1), torch.ones(1, *sides, dtype=torch.bool)
        return Batch(x, cut(y, start, self.size, 1), cut(mask, start, self.size, 1))

    def weight(self, indices: Tensor) -> int:
        return len(indices)

    def signature(self) -> dict[str, Any]:
        return self.examples.signature() | {"crop": list(self.size), "margin": self.margin}


def draw_start(side: int, size: int, margin: int, generator: Generator) -> int:
    """Where a window begins, any place within the example and its margins alike; before them if it is larger than both."""
    places = max(0, side + 2 * margin - size) + 1
    return int(torch.randint(places, (), generator=generator)) - margin


def cut(tensor: Tensor, start: Sequence[int], size: Sequence[int], first: int) -> Tensor:
    """The window that begins at `start`, with zeros outside; the grid's dimensions are those from `first` on."""
    pads: list[int] = []  # of the last dimension first, as torch has it
    for dim, (a, length) in enumerate(zip(start, size, strict=True), start=first):
        side = tensor.shape[dim]
        low, high = min(max(a, 0), side), min(max(a + length, 0), side)
        tensor = tensor.narrow(dim, low, high - low)
        before = min(max(-a, 0), length)
        pads = [before, length - (high - low) - before, *pads]
    behind = [0, 0] * (tensor.dim() - first - len(size))
    return F.pad(tensor, behind + pads) if any(pads) else tensor
