"""Navier-Stokes on the unit torus, in vorticity form: w_t + u w_x + v w_y = viscosity (w_xx + w_yy) + f, with w = v_x - u_y.

Space: Fourier modes up to a third of the grid, so that products are free of aliasing. The incompressible advection is computed as
(d_xx - d_yy)(uv) + d_xy(v^2 - u^2), which takes two transforms each way, and keeps energy and enstrophy as the equation does.

Time: three stages per step. The advection follows a Runge-Kutta method of third order that needs two stored slopes; within each
stage diffusion is Crank-Nicolson's. The whole is of second order, close to third where diffusion is weak. Diffusion is stable at
any step; advection up to sqrt(3) over the fastest frequency that the flow sweeps past a point, which is checked throughout.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xdops.arguments import check_fields, checked
from xdops.errors import XDError
from xdops.pde.fields import periodic_field
from xdops.pde.limits import check_count, check_even, check_field, check_indices, check_positive, check_seed

STAGES = ((8 / 15, 0.0), (5 / 12, -17 / 60), (3 / 4, -5 / 12))  # weights of this stage's slope and of the one before
STABLE = math.sqrt(3)
CHECKED_EVERY = 10  # steps
WORKING_POINTS = 2**17  # grid points advanced together: what the caches hold


@dataclass(frozen=True)
class NavierStokesSettings:
    """Vorticity at 0, and at every `record_every` up to `time`, on size x size points of a solver_size x solver_size grid."""

    samples: int = 1200
    size: int = 64
    solver_size: int = 256
    seed: int = 0
    viscosity: float = 1e-4
    time: float = 30.0
    step: float = 1e-4
    record_every: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("samples", self.samples)
        check_even("size", self.size)
        check_even("solver_size", self.solver_size)
        check_seed(self.seed)
        if self.solver_size % self.size:
            raise XDError(
                f"size {self.size} with solver_size {self.solver_size}",
                "a size that divides the solver's: every so many of its points are kept",
                f"solver_size {self.size * math.ceil(self.solver_size / self.size)}",
            )
        _check_equation(self.viscosity, self.time, self.step, self.record_every)


@checked
def make_navier_stokes(settings: NavierStokesSettings, indices: range) -> tuple[np.ndarray, np.ndarray]:  # (B, s, s), (B, s, s, T)
    """w0 ~ N(0, 7^3 (-Laplace + 49)^-2.5) and the vorticity it becomes: computed in double precision, given in single."""
    check_indices(indices, settings.samples)
    grid, every = settings.solver_size, settings.solver_size // settings.size
    starts = np.empty((len(indices), settings.size, settings.size), dtype=np.float32)
    frames = np.empty((*starts.shape, round(settings.time / settings.record_every)), dtype=np.float32)
    together = max(1, WORKING_POINTS // grid**2)
    for first in range(0, len(indices), together):
        part = slice(first, first + together)
        w0 = periodic_field(indices[part], grid, settings.seed, dims=2, sigma=7**1.5, tau=7.0, alpha=2.5)
        starts[part] = w0[:, ::every, ::every].numpy()
        march = _march(w0, settings.viscosity, settings.time, settings.step, settings.record_every, published_forcing(grid))
        for index, frame in enumerate(march):
            frames[part, ..., index] = frame[:, ::every, ::every].numpy()
    return starts, frames


@checked
def solve_navier_stokes(
    w0: Tensor, viscosity: float, time: float, step: float, record_every: float, forcing: Tensor | None = None
) -> Tensor:  # (B, n, n) -> (B, n, n, T)
    """Vorticity at record_every, 2 record_every, ..., time, from w0[:, i, j] at (x, y) = (i, j) / n, in w0's precision.

    `forcing` is f on the same grid, (n, n); without it, the published one.
    """
    check_field("initial vorticity", w0, dims=2)
    _check_equation(viscosity, time, step, record_every)
    if forcing is None:
        forcing = published_forcing(w0.shape[-1])
    check_field("forcing", forcing[None], dims=2)
    if forcing.shape != w0.shape[1:]:
        raise XDError(f"forcing of shape {tuple(forcing.shape)}", f"{tuple(w0.shape[1:])}, the vorticity's grid", "the same grid")
    return torch.stack(list(_march(w0, viscosity, time, step, record_every, forcing.to(w0.dtype))), dim=-1)


@checked
def published_forcing(size: int) -> Tensor:  # (size, size)
    """f = 0.1 (sin 2 pi (x + y) + cos 2 pi (x + y))"""
    check_count("grid size", size)
    x = torch.arange(size, dtype=torch.float64) / size
    phase = 2 * math.pi * (x[:, None] + x)
    return 0.1 * (phase.sin() + phase.cos())


@checked
def stable_step(w: Tensor) -> float:  # (B, n, n)
    """The longest stable step for these flows as they are now. Forcing makes them faster: leave a margin."""
    check_field("vorticity", w, dims=2)
    space = _Space(w.shape[0], w.shape[1], w.dtype)
    return space.stable_step(space.velocity(space.spectrum(w)))


class _Space:
    """The torus' Fourier modes on one grid: rows k_x of both signs, columns 0 <= k_y <= cutoff; rows beyond the cutoff stay 0."""

    def __init__(self, batch: int, grid: int, dtype: torch.dtype) -> None:
        self.grid, self.cutoff = grid, (grid - 1) // 3
        kx = 2 * math.pi * torch.fft.fftfreq(grid, 1 / grid, dtype=torch.float64)[:, None]
        ky = 2 * math.pi * torch.arange(self.cutoff + 1, dtype=torch.float64)
        self.kept = (kx.abs() < 2 * math.pi * (self.cutoff + 0.5)).to(dtype)
        self.laplacian = (kx**2 + ky**2).to(dtype)
        inverse = torch.where(kx**2 + ky**2 == 0, 0.0, 1 / (kx**2 + ky**2))
        self.curl = (torch.stack([ky * inverse, -kx * inverse])[:, None] * 1j).to(
            torch.complex64 if dtype == torch.float32 else torch.complex128
        )
        self.padded = self.curl.new_zeros(2, batch, grid, grid // 2 + 1)  # written anew by every call, to spare fresh memory
        self.products = self.laplacian.new_empty(2, batch, grid, grid)
        self.uv, self.difference = (kx**2 - ky**2).to(dtype) * self.kept, (kx * ky).to(dtype) * self.kept

    def spectrum(self, values: Tensor) -> Tensor:
        return self._modes(values) * self.kept

    def values(self, spectrum: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.ifft(spectrum, dim=-2), n=self.grid)

    def velocity(self, vorticity: Tensor) -> Tensor:  # (B, n, cutoff+1) -> (2, B, n, n)
        """(u, v) = (psi_y, -psi_x), where -Laplace psi = w."""
        kept = self.padded[..., : self.cutoff + 1]
        torch.mul(self.curl, vorticity, out=kept)
        kept.copy_(torch.fft.ifft(kept, dim=-2))
        return torch.fft.irfft(self.padded, n=self.grid)

    def advection(self, velocity: Tensor) -> Tensor:
        """-(d_xx - d_yy)(uv) - d_xy(v^2 - u^2)"""
        u, v = velocity
        torch.mul(u, v, out=self.products[0])
        torch.mul(v - u, v + u, out=self.products[1])
        uv, difference = self._modes(self.products)
        return uv.mul_(self.uv).add_(difference.mul_(self.difference))

    def stable_step(self, velocity: Tensor) -> float:
        fastest = velocity.abs().sum(dim=0).max().item() * 2 * math.pi * self.cutoff
        return STABLE / fastest if fastest > 0 else math.inf if fastest == 0 else math.nan

    def _modes(self, values: Tensor) -> Tensor:
        return torch.fft.fft(torch.fft.rfft(values)[..., : self.cutoff + 1], dim=-2)


def _march(w0: Tensor, viscosity: float, time: float, step: float, record_every: float, forcing: Tensor) -> Iterator[Tensor]:
    """The vorticity at every recorded time. An unstable step is refused before or while it does harm."""
    space = _Space(w0.shape[0], w0.shape[1], w0.dtype)
    push = space.spectrum(forcing)
    implicit = [viscosity * space.laplacian * step * (now + before) / 2 for now, before in STAGES]
    decay = [(1 - half) / (1 + half) for half in implicit]
    gain = [step / (1 + half) for half in implicit]
    w = space.spectrum(w0)
    old = torch.zeros_like(w)
    steps_per_frame = round(record_every / step)
    bound = math.inf
    for index in range(round(time / record_every) * steps_per_frame):
        for stage, (now, before) in enumerate(STAGES):
            velocity = space.velocity(w)
            if stage == 0 and index % CHECKED_EVERY == 0:
                bound = _check_step(step, space.stable_step(velocity), bound, index * step)
            slope = space.advection(velocity).add_(push)
            mean = slope * now if before == 0 else (slope * now).add_(old, alpha=before)
            w = (w * decay[stage]).add_(mean.mul_(gain[stage]))
            old = slope
        if (index + 1) % steps_per_frame == 0:
            frame = space.values(w)
            if not torch.isfinite(frame).all():
                _check_step(step, math.nan, bound, (index + 1) * step)
            yield frame


def _check_step(step: float, bound: float, last_bound: float, now: float) -> float:
    if step <= bound:
        return bound
    known = bound if bound > 0 else last_bound  # after an overflow: what it was before
    if known == math.inf:
        raise XDError(
            "vorticity beyond the range of its precision", "velocities that are finite", "smaller fields, or double precision"
        )
    raise XDError(
        f"a step of {step:g} in time, unstable for these flows at t = {now:g}",
        f"at most {known:.3g}, the stable bound at their speed on this grid",
        f"a step of {_rounded_down(known / 2):g}, or a coarser solver grid",
    )


def _rounded_down(value: float) -> float:
    """1, 2 or 5 times a power of ten: a step that divides the time between records."""
    power = 10 ** math.floor(math.log10(value))
    return power * max(digit for digit in (1, 2, 5) if digit * power <= value)


def _check_equation(viscosity: float, time: float, step: float, record_every: float) -> None:
    for name, value in {"viscosity": viscosity, "time": time, "step": step, "record_every": record_every}.items():
        check_positive(name, value)
    _check_multiple("time", time, "record_every", record_every)
    _check_multiple("record_every", record_every, "step", step)


def _check_multiple(name: str, value: float, part_name: str, part: float) -> None:
    times = round(value / part)
    if times < 1 or not math.isclose(times * part, value, rel_tol=1e-9):
        raise XDError(
            f"{name} {value:g} with {part_name} {part:g}",
            f"a whole multiple of {part_name}",
            f"{part_name} {value / max(times, 1):g}",
        )
