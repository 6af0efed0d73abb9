"""Predictions for inputs of any size by a network of one size: tiles that overlap, blended."""

from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor, nn

from xdops.arguments import check_fields
from xdops.errors import XDError
from xdops.search.crops import cut


@dataclass(frozen=True)
class Tiles:
    """How to predict (N, channels, ...) of any size with a network for inputs of `size`.

    Inputs get `margin` zeros on every side, as `Crops` gives them in training, and more at the far end where they are shorter than
    a tile. Longer ones are covered by evenly spread tiles that overlap by at least `overlap`. In an overlap of two tiles the weight
    goes linearly from one to the other, and within a quarter of `overlap` from where a tile is cut off it is zero: a network whose
    outputs see no further than that predicts exactly what it would without tiles. Outputs that are not on the grid, e.g. classes,
    are averaged over the tiles.
    """

    size: tuple[int, ...]
    overlap: int
    margin: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.size or min(self.size) < 1 or self.margin < 0 or not 0 <= self.overlap < min(self.size):
            raise XDError(
                f"tiles of {' x '.join(map(str, self.size))} with overlap {self.overlap} and margin {self.margin}",
                "positive sizes, an overlap smaller than they are, a margin of at least 0",
                "size=(64, 64), overlap=16, margin=0",
            )

    @property
    def exact(self) -> int:
        """How far outputs may see for the result to be exact."""
        return self.overlap // 4

    def __call__(self, network: nn.Module, x: Tensor) -> Tensor:
        if x.dim() != len(self.size) + 2:
            raise XDError(f"inputs of shape {tuple(x.shape)}", f"(N, channels) and {len(self.size)} sides", "x[None]")
        sides = [side + 2 * self.margin for side in x.shape[2:]]
        starts = [tile_starts(side, size, self.overlap) for side, size in zip(sides, self.size, strict=True)]
        places = list(product(*(range(len(s)) for s in starts)))
        corners = [[starts[d][i] for d, i in enumerate(place)] for place in places]
        tiles = (network(cut(x, [a - self.margin for a in corner], self.size, 2)) for corner in corners)
        first = next(tiles)
        if tuple(first.shape[2:]) != self.size:  # not on the grid
            return sum(tiles, first) / len(corners)
        whole = [max(side, size) for side, size in zip(sides, self.size, strict=True)]
        result, total = first.new_zeros(*first.shape[:2], *whole), first.new_zeros(whole)
        for place, corner, tile in zip(places, corners, chain([first], tiles), strict=True):
            weight = first.new_ones(())
            for d, i in enumerate(place):
                weight = weight[..., None] * self.weights(d, i > 0, i < len(starts[d]) - 1).to(first)
            window = tuple(slice(a, a + size) for a, size in zip(corner, self.size, strict=True))
            result[:, :, *window] += weight * tile
            total[*window] += weight
        inside = tuple(slice(self.margin, self.margin + side) for side in x.shape[2:])
        return (result / total)[:, :, *inside]

    def weights(self, dim: int, cut_before: bool, cut_after: bool) -> Tensor:
        """Of the positions along one side of a tile: from 0 at a side that is cut off up to 1."""
        place = torch.arange(self.size[dim], dtype=torch.float64)
        ramp = ((place + 1 - self.exact) / (self.overlap - 2 * self.exact + 1)).clamp(0, 1)
        ones = torch.ones_like(ramp)
        return (ramp if cut_before else ones) * (ramp.flip(0) if cut_after else ones)

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {"size": list(self.size), "overlap": self.overlap, "margin": self.margin}


def tile_starts(side: int, size: int, overlap: int) -> list[int]:
    """Where tiles begin: as few as will do, evenly spread."""
    if side <= size:
        return [0]
    count = -(-(side - overlap) // (size - overlap))
    return [round(i * (side - size) / (count - 1)) for i in range(count)]
