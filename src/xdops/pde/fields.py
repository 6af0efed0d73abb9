"""Gaussian random fields N(0, sigma^2 (-Laplace + tau^2)^-alpha) without their mean: where the equations' data comes from.

A field is a sum over the Laplacian's eigenfunctions, each with its own standard normal number times the root of its variance.
The numbers of sample i come from a generator of (seed, i) alone, and the sum always runs over the same number of modes. So a
sample is one function: every grid size shows values of that same function, however many samples are made at once.

The sums are cut off at `modes`, by default where the finest published grid can no longer tell them apart. A coarser grid shows
the point values of the whole sum, exactly as a fine grid subsampled would.
"""

import math

import numpy as np
import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.pde.limits import check_count, check_positive, check_seed

PERIODIC_MODES = {1: 4095, 2: 127}  # frequencies below Nyquist on 8192 points and on 256 x 256
NEUMANN_MODES = 420  # half waves per side on 421 x 421 points


@checked
def burgers_field(samples: int | range, size: int, seed: int) -> Tensor:  # (B, size)
    """u0(x) = sum_{k>=1} sqrt(2) 25 ((2 pi k)^2 + 25)^-1 (xi_k cos 2 pi k x + eta_k sin 2 pi k x) at x = 0, 1/size, ..."""
    return periodic_field(samples, size, seed, dims=1, sigma=25.0, tau=5.0, alpha=2.0)


@checked
def periodic_field(
    samples: int | range, size: int, seed: int, *, dims: int, sigma: float, tau: float, alpha: float, modes: int | None = None
) -> Tensor:  # (B, size) or (B, size, size)
    """Fields on the unit circle or torus, at the points 0, 1/size, ..., (size-1)/size.

    The eigenfunctions are cos(2 pi k.x) + sin(2 pi k.x) for the frequencies k of both signs, |k_i| <= modes: an orthonormal basis
    of real functions, with the same span as all cosines and sines.
    """
    if dims not in PERIODIC_MODES:
        raise XDError(f"{dims} dimensions", "1 or 2", "dims=1 or dims=2")
    modes = PERIODIC_MODES[dims] if modes is None else modes
    _check(size, seed, modes, sigma, tau, alpha)
    frequencies = torch.arange(-modes, modes + 1)
    deviations = _deviations(2 * math.pi * frequencies, dims, sigma, tau, alpha)
    fields = []
    for index in _indices(samples):
        series = _normals(seed, index, deviations.shape) * deviations
        waves = torch.fft.ifftn(_fold(series, frequencies % size, size), norm="forward")
        fields.append(waves.real + waves.imag)
    return torch.stack(fields)


@checked
def neumann_field(
    samples: int | range,
    size: int,
    seed: int,
    *,
    sigma: float = 1.0,
    tau: float = 3.0,
    alpha: float = 2.0,
    modes: int = NEUMANN_MODES,
) -> Tensor:  # (B, size, size)
    """Fields on the unit square with zero normal derivative, at the points 0, 1/(size-1), ..., 1 of each side; Darcy's by default.

    The eigenfunctions are c_i c_j cos(pi i x) cos(pi j y), i and j below `modes`, with c_0 = 1 and c_i = sqrt(2) otherwise.
    """
    _check(size, seed, modes, sigma, tau, alpha)
    if size < 2:
        raise XDError(f"size = {size}", "at least 2 points per side: both ends are on the grid", "a larger size")
    halves = torch.arange(modes)
    deviations = _deviations(math.pi * halves, 2, sigma, tau, alpha)
    # Whole multiples of pi are taken out before the cosine, so that sizes agree to rounding at high frequencies too.
    phases = torch.outer(torch.arange(size), halves) % (2 * (size - 1))
    waves = torch.cos(math.pi * phases.double() / (size - 1))
    waves[:, 1:] *= math.sqrt(2)
    return torch.stack([waves @ (_normals(seed, index, deviations.shape) * deviations) @ waves.T for index in _indices(samples)])


def _deviations(wavenumbers: Tensor, dims: int, sigma: float, tau: float, alpha: float) -> Tensor:
    """Root of every mode's variance; the constant mode has none."""
    squares = wavenumbers.double().square()
    laplacian = squares if dims == 1 else squares[:, None] + squares
    return torch.where(laplacian == 0, 0.0, float(sigma) * (laplacian + float(tau) ** 2) ** (-alpha / 2))


def _normals(seed: int, index: int, shape: torch.Size) -> Tensor:
    return torch.from_numpy(np.random.default_rng([seed, index]).standard_normal(tuple(shape)))


def _fold(series: Tensor, places: Tensor, size: int) -> Tensor:
    """Frequencies that look alike on the grid are added up, in every dimension."""
    for dim in range(series.ndim):
        shape = list(series.shape)
        shape[dim] = size
        series = series.new_zeros(shape).index_add_(dim, places, series)
    return series


def _indices(samples: int | range) -> range:
    if isinstance(samples, int):
        check_count("samples", samples)
        return range(samples)
    if not len(samples) or min(samples) < 0:
        raise XDError(f"samples {samples}", "at least one index, none negative", "range(0, 10), say")
    return samples


def _check(size: int, seed: int, modes: int, sigma: float, tau: float, alpha: float) -> None:
    check_count("size", size)
    check_count("modes", modes)
    check_seed(seed)
    for name, value in {"sigma": sigma, "tau": tau, "alpha": alpha}.items():
        check_positive(name, value)
