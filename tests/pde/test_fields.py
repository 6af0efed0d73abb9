"""Random fields: their covariance, and that a sample is one function on every grid."""

import math

import pytest
import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.pde import burgers_field, neumann_field, periodic_field

SAMPLES = 2000
SIGMAS = 5  # of the estimators: what chance may do


def whitened(
    coefficients: Tensor, deviations: Tensor
) -> Tensor:  # (samples, modes), (modes,) -> covariance, identity if all is right
    scaled = coefficients / deviations
    return scaled.T @ scaled / len(scaled)


def assert_identity(covariance: Tensor) -> None:
    off = (covariance - torch.eye(len(covariance), dtype=covariance.dtype)).abs()
    assert off.diagonal().max() < SIGMAS * math.sqrt(2 / SAMPLES)
    assert off.fill_diagonal_(0).max() < SIGMAS * math.sqrt(1 / SAMPLES)


def test_burgers_coefficients_are_independent_with_the_stated_deviations() -> None:
    u = burgers_field(SAMPLES, 8192, seed=3)
    series = torch.fft.rfft(u, norm="forward")[:, [1, 2, 3, 5, 40, 1000, 4000]]
    k = torch.tensor([1.0, 2, 3, 5, 40, 1000, 4000], dtype=torch.float64)
    deviations = math.sqrt(2) * 25 / ((2 * math.pi * k) ** 2 + 25)
    assert_identity(whitened(torch.cat([2 * series.real, -2 * series.imag], dim=1), torch.cat([deviations, deviations])))


def test_burgers_field_has_the_stated_variance_at_a_point_and_no_mean() -> None:
    u = burgers_field(SAMPLES, 64, seed=4)
    k = torch.arange(1, 100_000, dtype=torch.float64)
    variances = 2 * (25 / ((2 * math.pi * k) ** 2 + 25)) ** 2
    assert variances.sum().sqrt() == pytest.approx(0.59, abs=0.01)
    for point in (0, 17):
        assert u[:, point].square().mean() == pytest.approx(variances.sum().item(), rel=SIGMAS * math.sqrt(2 / SAMPLES))
    spread = math.sqrt(variances.square().sum().item() / SAMPLES)  # of the mean square over the circle
    assert u.square().mean() == pytest.approx(variances.sum().item(), abs=SIGMAS * spread)
    assert burgers_field(3, 8192, seed=4).mean(dim=-1).abs().max() < 1e-15


def test_periodic_coefficients_in_the_plane_are_independent_with_the_stated_deviations() -> None:
    sigma, tau, alpha = 7**1.5, 7.0, 2.5
    w = periodic_field(SAMPLES, 24, seed=5, dims=2, sigma=sigma, tau=tau, alpha=alpha, modes=11)
    kx, ky = torch.tensor([0, 1, 1, -1, 3, -11, 5]), torch.tensor([1, 0, 1, 1, 2, 11, 0])
    series = torch.fft.fft2(w, norm="forward")[:, kx, ky]
    deviations = math.sqrt(2) * sigma * (4 * math.pi**2 * (kx**2 + ky**2).double() + tau**2) ** (-alpha / 2)
    assert_identity(whitened(torch.cat([2 * series.real, -2 * series.imag], dim=1), torch.cat([deviations, deviations])))
    assert w.mean(dim=(1, 2)).abs().max() < 1e-15


def test_neumann_coefficients_are_independent_with_the_stated_deviations() -> None:
    size, modes = 25, 20
    field = neumann_field(SAMPLES, size, seed=6, sigma=1.0, tau=3.0, alpha=2.0, modes=modes)
    x = torch.linspace(0, 1, size, dtype=torch.float64)
    basis = torch.cos(math.pi * torch.outer(torch.arange(modes, dtype=torch.float64), x))
    basis[1:] *= math.sqrt(2)
    weights = torch.full((size,), 1 / (size - 1), dtype=torch.float64)  # the trapezoidal rule is exact for these products
    weights[[0, -1]] /= 2
    series = torch.einsum("kx,bxy,ly->bkl", basis * weights, field, basis * weights)
    assert series[:, 0, 0].abs().max() < 1e-14
    i, j = torch.tensor([0, 1, 1, 2, 0, 19, 7]), torch.tensor([1, 0, 1, 2, 5, 19, 3])
    deviations = 1 / (math.pi**2 * (i**2 + j**2).double() + 9)
    assert_identity(whitened(series[:, i, j], deviations))


def test_neumann_field_varies_as_its_cosine_series_says_at_corner_and_centre() -> None:
    field = neumann_field(SAMPLES, 5, seed=7, modes=40)
    i = torch.arange(40, dtype=torch.float64)
    variances = (math.pi**2 * (i[:, None] ** 2 + i**2) + 9) ** -2.0
    variances[0, 0] = 0
    factor = torch.where(i == 0, 1.0, 2.0)
    for point, x in ((0, 0.0), (2, 0.5), (1, 0.25)):
        wave = factor * torch.cos(math.pi * i * x) ** 2
        expected = (wave @ variances @ wave).item()
        assert field[:, point, point].square().mean() == pytest.approx(expected, rel=SIGMAS * math.sqrt(2 / SAMPLES))


def test_every_grid_shows_the_same_burgers_field() -> None:
    fine = burgers_field(3, 8192, seed=1)
    for size in (4096, 256, 32):
        torch.testing.assert_close(burgers_field(3, size, seed=1), fine[:, :: 8192 // size], rtol=0, atol=1e-13)
    torch.testing.assert_close(burgers_field(3, 96, seed=1)[:, ::3], fine[:, ::256], rtol=0, atol=1e-13)


def test_every_grid_shows_the_same_field_in_the_plane() -> None:
    kind = {"dims": 2, "sigma": 7**1.5, "tau": 7.0, "alpha": 2.5}
    fine = periodic_field(2, 256, seed=1, **kind)
    for size in (128, 64, 16):
        torch.testing.assert_close(
            periodic_field(2, size, seed=1, **kind), fine[:, :: 256 // size, :: 256 // size], rtol=0, atol=1e-13
        )


def test_every_grid_shows_the_same_neumann_field() -> None:
    fine = neumann_field(2, 421, seed=1)
    for every in (2, 5, 10):
        torch.testing.assert_close(neumann_field(2, 420 // every + 1, seed=1), fine[:, ::every, ::every], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "make",
    [
        lambda samples, seed: burgers_field(samples, 64, seed),
        lambda samples, seed: periodic_field(samples, 16, seed, dims=2, sigma=1.0, tau=3.0, alpha=2.0),
        lambda samples, seed: neumann_field(samples, 9, seed),
    ],
    ids=["burgers", "periodic", "neumann"],
)
def test_a_sample_depends_on_seed_and_index_alone(make) -> None:
    whole = make(7, 0)
    assert whole.dtype == torch.float64
    assert torch.equal(torch.cat([make(range(0, 3), 0), make(range(3, 7), 0)]), whole)
    assert not torch.isclose(whole[0], whole[1]).all()
    assert not torch.isclose(whole[0], make(1, 1)[0]).all()
    assert not torch.isclose(whole[1], make(1, 1)[0]).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"samples": 0}, "samples"),
        ({"samples": range(-1, 2)}, "negative"),
        ({"size": 0}, "size"),
        ({"seed": -1}, "seed"),
        ({"dims": 3}, "dimensions"),
        ({"tau": 0.0}, "tau"),
        ({"sigma": math.nan}, "sigma"),
        ({"alpha": -1.0}, "alpha"),
        ({"modes": 0}, "modes"),
    ],
)
def test_bad_fields_are_refused(change, named) -> None:
    good = {"samples": 2, "size": 16, "seed": 0, "dims": 1, "sigma": 1.0, "tau": 1.0, "alpha": 2.0}
    assert periodic_field(**good).shape == (2, 16)
    with pytest.raises(XDError, match=named):
        periodic_field(**{**good, **change})


def test_a_neumann_grid_has_two_ends() -> None:
    with pytest.raises(XDError, match="2 points"):
        neumann_field(1, 1, 0)
