"""What every equation's settings must satisfy."""

import torch
from torch import Tensor

from xdops.errors import XDError

#: Of counts and seeds.
LARGEST = 2**31 - 1
#: Of real numbers: squares and products of a few of them are still numbers.
FINEST, COARSEST = 1e-30, 1e30


def check_positive(name: str, value: float) -> None:
    if not FINEST <= value <= COARSEST:
        raise XDError(f"{name} {value}", f"a finite {name} above 0, from {FINEST:g} to {COARSEST:g}", f"another {name}")


def check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise XDError(f"{name} = {value}", f"a whole number of at least 1, at most {LARGEST:,}", f"another {name}")


def check_even(name: str, value: int) -> None:
    check_count(name, value)
    if value % 2:
        raise XDError(
            f"{name} = {value}", f"an even {name}: the grids are periodic and halve evenly", f"{value - 1} or {value + 1}"
        )


def check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST:
        raise XDError(f"seed {seed}", f"a whole number, not negative, at most {LARGEST:,}", "seed 0")


def check_indices(indices: range, samples: int) -> None:
    if len(indices) and not (min(indices) >= 0 and max(indices) < samples):
        raise XDError(f"samples {indices}", f"indices from 0 to {samples - 1}", "more samples in the settings, or other indices")


def check_field(name: str, field: Tensor, dims: int) -> None:
    """A batch of real fields on a grid, all of them finite."""
    real = field.dtype in (torch.float32, torch.float64)
    if not real or field.ndim != dims + 1 or any(n != field.shape[-1] for n in field.shape[1:]):
        raise XDError(
            f"{name} of shape {tuple(field.shape)} and type {field.dtype}",
            f"real fields, float32 or float64, of shape (batch{', n' * dims})",
            "u[None] for a single field",
        )
    check_even("grid size", field.shape[-1])
    bad = (~torch.isfinite(field)).sum().item()
    if bad:
        raise XDError(f"{name} with {bad} values that are not finite", "finite fields", "check where the fields come from")
