"""Normalisation, from the training part alone, kept with the run and undone in predictions."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

#: Squares of numbers below this lose digits, or vanish.
TINY = 1e-140
#: Deviations below this part of the mean are taken for rounding: equal values differ from their mean by it.
SAME = 1e-12


@dataclass(frozen=True)
class Scaling:
    """Per channel: (a - mean) / std. Channels that never change are only centred."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> "Scaling":
        """From training examples (N, channels, ...)."""
        axes = (0, *range(2, array.ndim))
        mean = array.mean(axis=axes, dtype=np.float64)
        largest = largest_of(array)
        if ((largest > 0) & (largest < TINY)).any():
            unit = np.where(largest > 0, largest, 1.0)
            std = unit * (array / unit.reshape(-1, *(1 for _ in axes[1:]))).std(axis=axes, dtype=np.float64)
        else:
            std = array.std(axis=axes, dtype=np.float64)
        std = np.where(std > SAME * np.abs(mean), std, 1.0)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def check_sense(self, channels: int) -> None:
        """ValueError unless it is one of so many channels."""
        finite = all(math.isfinite(value) for value in (*self.mean, *self.std))
        if len(self.mean) != channels or len(self.std) != channels or not finite or min(self.std) <= 0:
            raise ValueError(f"means and deviations of {len(self.mean)} and {len(self.std)} for {channels} channels, or no numbers")

    def apply(self, array: np.ndarray) -> np.ndarray:
        shape = (-1, *(1 for _ in array.shape[2:]))
        with np.errstate(over="ignore"):  # what is too large then is refused with its place
            return ((array - np.reshape(self.mean, shape)) / np.reshape(self.std, shape)).astype(np.float32)

    def undo(self, values: Tensor) -> Tensor:
        """Back to the data's own units."""
        shape = (-1, *(1 for _ in values.shape[2:]))
        mean, std = (torch.tensor(v, dtype=values.dtype, device=values.device).reshape(shape) for v in (self.mean, self.std))
        return values * std + mean


def largest_of(array: np.ndarray) -> np.ndarray:
    """The largest modulus in each channel of (N, channels, ...)."""
    axes = (0, *range(2, array.ndim))
    ends = (np.abs(end.astype(np.float64)) for end in (array.max(axis=axes), array.min(axis=axes)))
    return np.maximum(*ends)
