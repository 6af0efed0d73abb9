"""Circular padding in one pass over memory each way.

torch's own is made of slices that are written to one after the other, and its gradient copies the whole tensor for each of them.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from xdops.engine.geometry import Line, paddings
from xdops.engine.passes import Maybe, compute


def wrap(x: Tensor, lines: Sequence[Line]) -> Tensor:
    """x (batch, c, m...) with points of its other end before and after every dimension: `pad` in circular mode."""
    amounts = tuple(paddings(x, lines))
    return compute(_Wrapped(amounts), x) if any(map(sum, amounts)) else x


@dataclass(frozen=True)
class _Wrapped:
    """See `Passes`."""

    amounts: tuple[tuple[int, int], ...]

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        (x,) = (t for t in tensors if t is not None)
        out = x.new_empty(*x.shape[:2], *(m + sum(p) for m, p in zip(x.shape[2:], self.amounts, strict=True)))
        for padded, own in self._pieces(out, x):
            padded.copy_(own)
        return out, []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        (x,) = (t for t in tensors if t is not None)
        grad = x.new_empty(x.shape)
        for index, (padded, own) in enumerate(self._pieces(g, grad)):
            own.add_(padded) if index else own.copy_(padded)
        return [grad]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        (x,) = (t for t in tensors if t is not None)
        return F.pad(x, [p for pair in reversed(self.amounts) for p in pair], mode="circular")

    def _pieces(self, padded: Tensor, own: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of the padded tensor and what of the own one they are: all of it, then the edges and corners."""
        choices = [
            [(low, 0, m), (0, m - low, low), (low + m, 0, high)]  # where in either, and how many points
            for m, (low, high) in zip(own.shape[2:], self.amounts, strict=True)
        ]
        for chosen in itertools.product(*choices):
            a, b = padded, own
            for dim, (start, place, count) in enumerate(chosen, start=2):
                a, b = a.narrow(dim, start, count), b.narrow(dim, place, count)
            if a.numel():
                yield a, b
