"""Burgers' equation u_t + u u_x = viscosity u_xx on a periodic interval.

Fourier modes up to a third of the grid are kept, so that u^2 is free of aliasing; diffusion is solved exactly by an integrating
factor, and the rest by the classical Runge-Kutta method of fourth order.

The published data states the unit interval, but its solutions are those on a period of 2 pi, onto which the initial field, of
period 1, is stretched. That is the default here.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xdops.arguments import check_fields, checked
from xdops.errors import XDError, several
from xdops.pde.fields import burgers_field
from xdops.pde.limits import check_count, check_even, check_field, check_indices, check_positive, check_seed

STABLE = 2.8  # Runge-Kutta of fourth order: largest step times frequency of a pure oscillation
CAREFUL = 0.5  # what we step by when nobody says: well inside, for accuracy
FIELD_SIZE = 8192  # shows every mode of the initial field
FIRST_SIZE, LAST_SIZE = 512, 8192  # solver grids: doubled until the solution is resolved
RESOLVED = 1e-11  # a spectrum's tail, relative to its largest mode


@dataclass(frozen=True)
class BurgersSettings:
    """Pairs (u at 0, u at `time`), on `size` points. `steps` in time: as many as accuracy needs, unless given."""

    samples: int = 2048
    size: int = 8192
    seed: int = 0
    viscosity: float = 0.1
    time: float = 1.0
    period: float = 2 * math.pi
    steps: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("samples", self.samples)
        check_even("size", self.size)
        check_seed(self.seed)
        _check_equation(self.viscosity, self.time, self.period, self.steps)


@checked
def make_burgers(settings: BurgersSettings, indices: range) -> tuple[np.ndarray, np.ndarray]:  # (B, size), (B, size)
    """Initial fields and solutions of the samples in `indices`, in single precision (they are computed in double).

    The solver's grid is the coarsest on which a sample's solution is resolved, whatever `size` is: the solution is smooth, and its
    Fourier series says what it is at every point.
    """
    check_indices(indices, settings.samples)
    start = burgers_field(indices, FIELD_SIZE, settings.seed)
    shown = burgers_field(indices, settings.size, settings.seed)
    end = torch.empty_like(shown)
    left = torch.arange(len(start))
    size = FIRST_SIZE
    while len(left):
        if size > LAST_SIZE:
            raise XDError(
                f"viscosity {settings.viscosity} on a period of {settings.period:g}: the solution has fronts too thin to resolve",
                f"a solution that {LAST_SIZE} points resolve",
                "a larger viscosity, or another time",
            )
        fields = _resample(start[left], size)
        solutions, tails = _solve(fields, settings.viscosity, settings.time, settings.period, settings.steps)
        done = tails < RESOLVED
        end[left[done]] = _at_points(solutions, settings.size)[done]
        left = left[~done]
        size *= 2
    return shown.float().numpy(), end.float().numpy()


@checked
def solve_burgers(u0: Tensor, viscosity: float, time: float, period: float, steps: int | None = None) -> Tensor:  # (B, n) -> (B, n)
    """The solution at `time` of every initial field, on its own grid. Each field takes as many steps as it needs, or `steps`."""
    return _solve(u0, viscosity, time, period, steps)[0]


def _solve(u0: Tensor, viscosity: float, time: float, period: float, steps: int | None) -> tuple[Tensor, Tensor]:
    """Solutions, and the largest tail that each spectrum had once diffusion had erased the tail it began with."""
    check_field("initial fields", u0, dims=1)
    _check_equation(viscosity, time, period, steps)
    grid = u0.shape[-1]
    wavenumbers = 2 * math.pi / period * torch.arange((grid - 1) // 3 + 1, dtype=u0.dtype)
    frequencies = u0.abs().amax(dim=-1) * wavenumbers[-1]  # |u| never grows, so this bounds the whole run
    if steps is None:
        counts = 2 ** torch.clamp(time * frequencies / CAREFUL, min=16).log2().ceil().long()
    else:
        least = math.ceil(time * frequencies.max().item() / STABLE)
        if steps < least:
            raise XDError(
                f"{several(steps, 'step')} of {time / steps:.3g}",
                f"at least {least} steps ({time / least:.3g} or shorter): longer ones are unstable here",
                "steps=None, which chooses them",
            )
        counts = torch.full((len(u0),), steps)
    ends, tails = torch.empty_like(u0), u0.new_empty(len(u0))
    for count in counts.unique().tolist():
        rows = counts == count
        ends[rows], tails[rows] = _march(u0[rows], wavenumbers, viscosity, time, count)
    return ends, tails


def _march(u0: Tensor, wavenumbers: Tensor, viscosity: float, time: float, steps: int) -> tuple[Tensor, Tensor]:
    grid, kept = u0.shape[-1], len(wavenumbers)
    step = time / steps
    half = torch.exp(-viscosity * wavenumbers**2 * step / 2)  # diffusion over half a step
    whole = half**2
    flux = -0.5j * wavenumbers

    def advection(spectrum: Tensor) -> Tensor:
        return flux * torch.fft.rfft(torch.fft.irfft(spectrum, n=grid).square())[..., :kept]

    smooth_after = -math.log(torch.finfo(u0.dtype).eps) / (viscosity * (wavenumbers[-1].item() * 0.9) ** 2)
    tails = torch.zeros(len(u0), dtype=u0.dtype)
    u = torch.fft.rfft(u0)[..., :kept]
    for index in range(steps):
        slope1 = advection(u)
        slope2 = advection(half * (u + step / 2 * slope1))
        slope3 = advection(half * u + step / 2 * slope2)
        slope4 = advection(whole * u + step * half * slope3)
        u = whole * u + step / 6 * (whole * slope1 + 2 * half * (slope2 + slope3) + slope4)
        if (index + 1) * step >= smooth_after or index == steps - 1:
            tails = torch.maximum(tails, _tail(u))
    return torch.fft.irfft(u, n=grid), tails


def _tail(spectrum: Tensor) -> Tensor:
    """Size of the last tenth of the modes, relative to the largest."""
    sizes = spectrum.abs()
    return sizes[..., -max(1, sizes.shape[-1] // 10) :].amax(dim=-1) / sizes.amax(dim=-1).clamp(min=torch.finfo(sizes.dtype).tiny)


def _resample(u: Tensor, size: int) -> Tensor:
    """The same Fourier series on another grid; a coarser grid keeps the modes that it can hold."""
    grid = u.shape[-1]
    spectrum = torch.fft.rfft(u, norm="forward")[..., : min(grid, size) // 2]
    return torch.fft.irfft(spectrum, n=size, norm="forward")


def _at_points(u: Tensor, size: int) -> Tensor:
    """The Fourier series' values at `size` points, every mode included."""
    every = math.ceil(u.shape[-1] / size)
    return _resample(u, size * every)[..., ::every]


def _check_equation(viscosity: float, time: float, period: float, steps: int | None) -> None:
    for name, value in {"viscosity": viscosity, "time": time, "period": period}.items():
        check_positive(name, value)
    if steps is not None:
        check_count("steps", steps)
