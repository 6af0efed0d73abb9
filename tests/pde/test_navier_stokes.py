"""Navier-Stokes against flows that are known: decaying eigenfunctions, a manufactured flow, and what an ideal fluid keeps."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.pde import (
    NavierStokesSettings,
    make_navier_stokes,
    periodic_field,
    published_forcing,
    solve_navier_stokes,
    stable_step,
)

QUICK = NavierStokesSettings(samples=5, size=16, solver_size=32, viscosity=1e-3, time=2.0, step=0.02)


def torus(size: int) -> tuple[Tensor, Tensor]:  # x in units of 2 pi along rows, y along columns
    angle = 2 * math.pi * torch.arange(size, dtype=torch.float64) / size
    return angle[:, None].expand(size, size), angle.expand(size, size)


def still(size: int) -> Tensor:
    return torch.zeros(size, size, dtype=torch.float64)


def random_vorticity(samples: int, size: int, strength: float = 3.0) -> Tensor:
    return strength * periodic_field(samples, size, seed=0, dims=2, sigma=7**1.5, tau=7.0, alpha=2.5, modes=8)


def orders(errors: list[float]) -> list[float]:
    return [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]


def test_taylor_green_vortices_decay_exactly_and_to_second_order_in_time() -> None:
    x, y = torus(32)
    start = (torch.sin(2 * x) * torch.cos(2 * y))[None]
    rate = 0.01 * 2 * (4 * math.pi) ** 2
    errors = []
    for step in (0.1, 0.05, 0.025):
        frames = solve_navier_stokes(start, 0.01, 1.0, step, 0.5, forcing=still(32))
        assert frames.shape == (1, 32, 32, 2)
        exact = torch.stack([start * math.exp(-rate * time) for time in (0.5, 1.0)], dim=-1)
        errors.append((frames - exact).abs().max().item())
    print(f"errors {errors}, orders {orders(errors)}")
    assert all(order == pytest.approx(2, abs=0.1) for order in orders(errors))
    fine = solve_navier_stokes(start, 1e-4, 1.0, 0.01, 1.0, forcing=still(32))[..., 0]
    torch.testing.assert_close(fine, start * math.exp(-1e-4 * 2 * (4 * math.pi) ** 2), rtol=0, atol=1e-10)


def test_waves_of_one_length_in_every_direction_decay_without_disturbing_each_other() -> None:
    """Their products are large, yet advect nothing: vorticity and stream function are proportional."""
    x, y = torus(48)
    start = sum(torch.cos(p * x + q * y + phase) for p, q, phase in ((5, 0, 0.1), (3, 4, 1.0), (-4, 3, 2.0), (0, 5, 3.0)))[None]
    end = solve_navier_stokes(start, 1e-4, 1.0, 0.01, 1.0, forcing=still(48))[..., 0]
    torch.testing.assert_close(end, start * math.exp(-1e-4 * (10 * math.pi) ** 2), rtol=0, atol=1e-8)


def test_manufactured_flow_stays_when_its_own_forcing_holds_it() -> None:
    """psi = (sin x cos 2y + cos 3x + sin y) / (2 pi)^2 in angles x, y; f = u w_x + v w_y - viscosity Laplace w, by hand."""
    x, y = torus(32)
    sin, cos = torch.sin, torch.cos
    w = 5 * sin(x) * cos(2 * y) + 9 * cos(3 * x) + sin(y)
    u = (-2 * sin(x) * sin(2 * y) + cos(y)) / (2 * math.pi)
    v = -(cos(x) * cos(2 * y) - 3 * sin(3 * x)) / (2 * math.pi)
    w_x = 2 * math.pi * (5 * cos(x) * cos(2 * y) - 27 * sin(3 * x))
    w_y = 2 * math.pi * (-10 * sin(x) * sin(2 * y) + cos(y))
    laplace_w = -((2 * math.pi) ** 2) * (25 * sin(x) * cos(2 * y) + 81 * cos(3 * x) + sin(y))
    advection = u * w_x + v * w_y
    assert advection.abs().max() > 10
    end = solve_navier_stokes(w[None], 0.01, 1.0, 0.005, 1.0, forcing=advection - 0.01 * laplace_w)[0, ..., 0]
    torch.testing.assert_close(end, w, rtol=0, atol=1e-9)


def test_time_stepping_of_a_forced_flow_is_of_second_order_or_better() -> None:
    start = random_vorticity(2, 48)
    for viscosity, least in ((1e-2, 1.9), (1e-4, 2.2)):
        exact = solve_navier_stokes(start, viscosity, 1.0, 1e-3, 1.0)
        assert (exact[..., 0] - start).abs().max() > 0.3 * start.abs().max()
        errors = [
            (solve_navier_stokes(start, viscosity, 1.0, step, 1.0) - exact).abs().max().item() for step in (1 / 25, 1 / 50, 1 / 100)
        ]
        print(f"viscosity {viscosity}: errors {errors}, orders {orders(errors)}")
        assert all(least < order < 3.2 for order in orders(errors))


def test_space_is_resolved_spectrally() -> None:
    start = random_vorticity(1, 128, strength=2.0)
    finest = solve_navier_stokes(start, 1e-3, 2.0, 0.02, 2.0)[..., 0]
    errors = []
    for every in (4, 2):
        coarse = solve_navier_stokes(start[:, ::every, ::every].contiguous(), 1e-3, 2.0, 0.02, 2.0)[..., 0]
        errors.append((coarse - finest[:, ::every, ::every]).abs().max().item())
    assert errors[1] < errors[0] / 100
    assert errors[1] < 1e-5


def energy(w: Tensor) -> float:
    """Half the mean square velocity: sum |w_k|^2 / (2 |2 pi k|^2)."""
    k = 2 * math.pi * torch.fft.fftfreq(w.shape[-1], 1 / w.shape[-1], dtype=torch.float64)
    squares = k[:, None] ** 2 + k**2
    squares[0, 0] = math.inf
    return (torch.fft.fft2(w, norm="forward").abs().square() / (2 * squares)).sum().item()


def test_an_ideal_fluid_keeps_energy_enstrophy_and_mean_vorticity() -> None:
    start = random_vorticity(1, 48, strength=20.0) + 0.25  # modes up to 8: all kept by the solver
    drifts = []
    for step in (0.01, 0.005):
        end = solve_navier_stokes(start, 1e-15, 1.0, step, 1.0, forcing=still(48))[..., 0]
        assert (end - start).abs().max() > start.abs().max() / 2
        assert end.mean().item() == pytest.approx(0.25, abs=1e-12)
        drifts.append((abs(energy(end) / energy(start) - 1), abs((end.square().mean() / start.square().mean()).item() - 1)))
    print(f"relative drifts of energy and enstrophy {drifts}")
    for kept in range(2):
        assert drifts[1][kept] < 1e-4
        assert drifts[0][kept] / drifts[1][kept] > 6  # what is lost is the time step's, of third order


def test_published_forcing_drives_the_flow_from_rest() -> None:
    """From rest the vorticity is f (1 - exp(-viscosity |k|^2 t)) / (viscosity |k|^2): f is one wave, which advects nothing."""
    rate = 1e-3 * 2 * (2 * math.pi) ** 2
    end = solve_navier_stokes(still(32)[None], 1e-3, 3.0, 0.01, 3.0)[0, ..., 0]
    x, y = torus(32)
    expected = 0.1 * (torch.sin(x + y) + torch.cos(x + y)) * (1 - math.exp(-rate * 3)) / rate
    torch.testing.assert_close(end, expected, rtol=0, atol=1e-7)


def test_single_precision_stays_single_and_close() -> None:
    start = random_vorticity(1, 32)
    double = solve_navier_stokes(start, 1e-3, 1.0, 0.02, 1.0)
    single = solve_navier_stokes(start.float(), 1e-3, 1.0, 0.02, 1.0)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-4)


def test_made_data_is_the_solver_seen_on_the_coarser_grid() -> None:
    a, u = make_navier_stokes(QUICK, range(5))
    assert a.shape == (5, 16, 16)
    assert u.shape == (5, 16, 16, 2)
    assert a.dtype == u.dtype == np.float32
    start = periodic_field(5, 32, QUICK.seed, dims=2, sigma=7**1.5, tau=7.0, alpha=2.5)
    np.testing.assert_array_equal(a, start[:, ::2, ::2].float().numpy())
    frames = solve_navier_stokes(start, QUICK.viscosity, QUICK.time, QUICK.step, QUICK.record_every, published_forcing(32))
    np.testing.assert_allclose(u, frames[:, ::2, ::2].numpy(), rtol=0, atol=1e-6)


def test_made_data_is_the_same_in_chunks_and_starts_alike_on_every_solver_grid(monkeypatch) -> None:
    a, u = make_navier_stokes(QUICK, range(5))
    monkeypatch.setattr("xdops.pde.navier_stokes.WORKING_POINTS", 2 * 32**2)
    for indices in (range(0, 3), range(3, 5)):
        part_a, part_u = make_navier_stokes(QUICK, indices)
        np.testing.assert_array_equal(part_a, a[indices.start : indices.stop])
        np.testing.assert_allclose(part_u, u[indices.start : indices.stop], rtol=0, atol=1e-6)
    finer = NavierStokesSettings(samples=5, size=16, solver_size=64, viscosity=1e-3, time=1.0, step=0.02)
    np.testing.assert_allclose(make_navier_stokes(finer, range(2))[0], a[:2], rtol=0, atol=1e-6)


def test_an_unstable_step_is_refused_with_the_bound_and_the_hint_works() -> None:
    start = random_vorticity(2, 64, strength=20.0)
    bound = stable_step(start)
    with pytest.raises(XDError, match=f"at most {bound:.3g}") as refused:
        solve_navier_stokes(start, 1e-3, 0.5, 0.05, 0.5)
    hinted = float(refused.value.hint.split()[3].rstrip(","))
    assert bound / 5 <= hinted <= bound / 2
    assert torch.isfinite(solve_navier_stokes(start, 1e-3, 0.5, hinted, 0.5)).all()


def test_the_bound_parts_stable_from_unstable_steps(monkeypatch) -> None:
    """Broad vortices carry a faint ripple of the shortest waves: steps within the bound leave it faint, twice those do not."""
    x, y = torus(32)
    start = (2 * math.pi * (torch.sin(x) + torch.sin(y)) + 1e-6 * torch.cos(10 * (x + y)))[None]
    bound = stable_step(start)
    assert bound == pytest.approx(math.sqrt(3) / (2 * 2 * math.pi * 10), rel=1e-3)
    steps = math.ceil(2 / bound)
    end = solve_navier_stokes(start, 1e-12, 2.0, 2.0 / steps, 2.0, forcing=still(32))[..., 0]
    assert (end - start).abs().max() < 1e-3
    monkeypatch.setattr("xdops.pde.navier_stokes.STABLE", 100.0)
    with pytest.raises(XDError, match="unstable"):
        solve_navier_stokes(start, 1e-12, 2.0, 2.0 / (steps // 2), 2.0, forcing=still(32))


def test_no_frame_is_ever_returned_that_is_not_finite(monkeypatch) -> None:
    start = random_vorticity(1, 64, strength=100.0)
    before = stable_step(start)
    monkeypatch.setattr("xdops.pde.navier_stokes.STABLE", 1e9)
    for checked_every in (10, 1000):
        monkeypatch.setattr("xdops.pde.navier_stokes.CHECKED_EVERY", checked_every)
        with pytest.raises(XDError, match="unstable"):
            solve_navier_stokes(start, 1e-6, 1.0, 0.05, 1.0)
    assert before < 0.05
    with pytest.raises(XDError, match="precision"):
        solve_navier_stokes(torch.full((1, 16, 16), 3e38) * torus(16)[0].cos().float(), 1e-3, 1.0, 0.1, 1.0)


def test_a_flow_that_becomes_too_fast_on_the_way_is_refused() -> None:
    start = random_vorticity(1, 32, strength=0.1)
    assert stable_step(start) > 0.05
    with pytest.raises(XDError, match=r"unstable for these flows at t = [0-9.]*[1-9]"):
        solve_navier_stokes(start, 1e-4, 20.0, 0.05, 1.0, forcing=50 * published_forcing(32))


def test_rest_is_stable_at_any_step() -> None:
    assert stable_step(still(16)[None]) == math.inf


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"viscosity": 0.0}, "viscosity"),
        ({"viscosity": -1e-4}, "viscosity"),
        ({"viscosity": math.inf}, "viscosity"),
        ({"samples": 0}, "samples"),
        ({"size": 48}, "divides"),
        ({"size": 512}, "divides"),
        ({"size": 31}, "even"),
        ({"solver_size": 255}, "even"),
        ({"seed": -1}, "seed"),
        ({"time": 0.0}, "time"),
        ({"step": -1e-3}, "step"),
        ({"record_every": 0.0}, "record_every"),
        ({"time": 2.5}, "multiple of record_every"),
        ({"step": 0.3}, "multiple of step"),
        ({"step": 5.0}, "multiple of step"),
    ],
)
def test_bad_settings_are_refused(change, named) -> None:
    with pytest.raises(XDError, match=named):
        NavierStokesSettings(**change)


def test_samples_outside_the_settings_are_refused() -> None:
    with pytest.raises(XDError, match="0 to 4"):
        make_navier_stokes(QUICK, range(4, 6))


@pytest.mark.parametrize(
    ("start", "forcing", "named"),
    [
        (torch.full((1, 16, 16), math.inf, dtype=torch.float64), None, "not finite"),
        (torch.zeros(16, 16, dtype=torch.float64), None, "shape"),
        (torch.zeros(1, 16, 18, dtype=torch.float64), None, "shape"),
        (torch.zeros(1, 15, 15, dtype=torch.float64), None, "even"),
        (torch.zeros(1, 16, 16, dtype=torch.float64), torch.zeros(32, 32, dtype=torch.float64), "forcing"),
        (torch.zeros(1, 16, 16, dtype=torch.float64), torch.full((16, 16), math.nan, dtype=torch.float64), "forcing"),
    ],
)
def test_bad_fields_are_refused(start, forcing, named) -> None:
    with pytest.raises(XDError, match=named):
        solve_navier_stokes(start, 1e-3, 1.0, 0.1, 1.0, forcing)
