"""Images on their way into a network: normalised, augmented, or with their rows and columns in another order."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from xdops.data.scaling import Scaling
from xdops.errors import XDError
from xdops.search.seeds import derive_seed

AnyImages = TypeVar("AnyImages", Tensor, np.ndarray)

#: Images looked at together where intermediate results are wider than bytes.
CHUNK = 1000
#: Zeros added on each side before a crop of the original size.
PADDING = 4


@dataclass(frozen=True)
class Normalisation(Scaling):
    """Scaling for many images of bytes: exact sums, and never more than one array of floats."""

    @classmethod
    def of(cls, array: np.ndarray) -> "Normalisation":
        """From training images (N, channels, height, width), uint8."""
        axes = (0, 2, 3)
        parts = [array[i : i + CHUNK] for i in range(0, len(array), CHUNK)]
        count = array.size // array.shape[1]
        mean = sum(part.sum(axes, dtype=np.int64) for part in parts) / count
        square = sum(np.square(part, dtype=np.uint32).sum(axes, dtype=np.int64) for part in parts) / count
        std = np.sqrt(np.maximum(square - mean**2, 0.0))
        std = np.where(std > 1e-6, std, 1.0)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, array: np.ndarray) -> np.ndarray:
        result = array.astype(np.float32, order="C")
        result -= np.reshape(self.mean, (-1, 1, 1)).astype(np.float32)
        result /= np.reshape(self.std, (-1, 1, 1)).astype(np.float32)
        return result


def flip_and_crop(x: Tensor, generator: Generator) -> Tensor:
    """Each image (N, channels, height, width) flipped left to right or not, padded by four zeros on every side, and cropped to its
    old size somewhere; all at once, with all randomness from the generator. After normalisation zero is the mean colour.
    """
    n, channels, height, width = x.shape
    flip = torch.randint(2, (n, 1), generator=generator, device=generator.device).bool()
    top, left = torch.randint(2 * PADDING + 1, (2, n, 1), generator=generator, device=generator.device)
    across = torch.arange(width, device=generator.device)
    rows = top + torch.arange(height, device=generator.device)  # (N, height), of the padded image
    columns = left + torch.where(flip, across.flip(0), across)
    padded_width = width + 2 * PADDING
    pixels = (rows[:, :, None] * padded_width + columns[:, None, :]).reshape(n, 1, -1).to(x.device)
    padded = F.pad(x, (PADDING,) * 4).flatten(2)
    return padded.gather(2, pixels.expand(-1, channels, -1)).reshape(x.shape)


@dataclass(frozen=True)
class Permutation:
    """An order of the rows and one of the columns, the same for all images: row i of the result is row rows[i] of the image."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        for what, order in (("rows", self.rows), ("columns", self.columns)):
            if sorted(order) != list(range(len(order))):
                raise XDError(
                    f"{what}={order}", f"every number from 0 to {len(order) - 1} once", "Permutation.draw(32, 32, seed=0)"
                )

    @classmethod
    def draw(cls, height: int, width: int, seed: int) -> "Permutation":
        """The one of this seed."""
        generator = torch.Generator().manual_seed(derive_seed(seed, "rows and columns"))
        return cls(*(tuple(torch.randperm(n, generator=generator).tolist()) for n in (height, width)))

    @property
    def inverse(self) -> "Permutation":
        """What undoes it."""
        return Permutation(*(tuple(np.argsort(order).tolist()) for order in (self.rows, self.columns)))

    def apply(self, x: AnyImages) -> AnyImages:
        """Images (..., height, width) in the new order."""
        if x.shape[-2:] != (len(self.rows), len(self.columns)):
            raise XDError(
                f"images of {' x '.join(map(str, x.shape[-2:]))}",
                f"{len(self.rows)} x {len(self.columns)}, as the permutation",
                "Permutation.draw(height, width, seed)",
            )
        if isinstance(x, Tensor):
            rows, columns = (torch.tensor(order, device=x.device) for order in (self.rows, self.columns))
            return x.index_select(-2, rows).index_select(-1, columns)
        return x.take(self.rows, axis=-2).take(self.columns, axis=-1)

    def to_dict(self) -> dict[str, list[int]]:
        """As JSON data."""
        return {"rows": list(self.rows), "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Permutation":
        return cls(tuple(data["rows"]), tuple(data["columns"]))
