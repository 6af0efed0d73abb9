"""Burgers' equation against exact solutions: u = -2 viscosity phi_x / phi, where phi solves the heat equation (Cole, Hopf)."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.pde import BurgersSettings, burgers_field, make_burgers, solve_burgers

VISCOSITY, PERIOD = 0.1, 2 * math.pi


def one_wave(size: int, time: float, offset: float, viscosity: float = VISCOSITY, period: float = PERIOD) -> Tensor:
    """phi = offset + exp(-viscosity k^2 t) cos kx in closed form; steep if offset is near 1."""
    k = 2 * math.pi / period
    x = torch.arange(size, dtype=torch.float64)[None] * period / size
    decay = math.exp(-viscosity * k**2 * time)
    return 2 * viscosity * k * decay * torch.sin(k * x) / (offset + decay * torch.cos(k * x))


def cole_hopf(u0: Tensor, time: float) -> Tensor:
    """Any field without mean: phi at 0 is exp(-integral of u0 / (2 viscosity)), and the heat equation is solved mode by mode."""
    size = u0.shape[-1]
    k = torch.arange(size // 2 + 1, dtype=torch.float64)
    slopes = torch.fft.rfft(u0)
    integral = torch.zeros_like(slopes)
    integral[:, 1:-1] = slopes[:, 1:-1] / (1j * k[1:-1])
    exponent = torch.fft.irfft(integral, n=size)
    phi = torch.fft.rfft(torch.exp((exponent.amin(dim=-1, keepdim=True) - exponent) / (2 * VISCOSITY))) * torch.exp(
        -VISCOSITY * k**2 * time
    )
    return -2 * VISCOSITY * torch.fft.irfft(1j * k * phi, n=size) / torch.fft.irfft(phi, n=size)


def truncated(u: Tensor, size: int) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(u, norm="forward")[:, : size // 2], n=size, norm="forward")


def test_closed_form_is_met_on_any_period() -> None:
    for period in (PERIOD, 1.0, 10.0):
        viscosity = VISCOSITY * (period / PERIOD) ** 2
        start, end = (one_wave(256, time, 1.2, viscosity, period) for time in (0.0, 1.0))
        assert (end - start).abs().max() > 0.2 * start.abs().max()
        torch.testing.assert_close(solve_burgers(start, viscosity, 1.0, period), end, rtol=0, atol=1e-9 * end.abs().max().item())


def test_error_falls_faster_than_any_power_of_the_grid() -> None:
    errors = [
        (solve_burgers(one_wave(n, 0.0, 1.05), VISCOSITY, 1.0, PERIOD, steps=400) - one_wave(n, 1.0, 1.05)).abs().max()
        for n in (32, 64, 128)
    ]
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    assert orders[0] > 4
    assert orders[1] > orders[0] + 3
    assert errors[-1] < 1e-9


def test_random_fields_are_solved_to_fourth_order_in_time() -> None:
    fields = burgers_field(4, 8192, seed=0)
    exact = cole_hopf(fields, 1.0)[:, ::16]
    start = truncated(fields, 512)
    errors = [(solve_burgers(start, VISCOSITY, 1.0, PERIOD, steps) - exact).abs().max().item() for steps in (128, 256, 512)]
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    print(f"errors {errors}, orders {orders}")
    assert errors[-1] < 1e-9
    assert all(order == pytest.approx(4, abs=0.2) for order in orders)


def test_steps_chosen_by_default_are_accurate() -> None:
    fields = burgers_field(6, 8192, seed=1)
    exact = cole_hopf(fields, 1.0)[:, ::16]
    torch.testing.assert_close(solve_burgers(truncated(fields, 512), VISCOSITY, 1.0, PERIOD), exact, rtol=0, atol=1e-9)


def test_512_points_give_what_2048_points_give() -> None:
    """Why data of 8192 points may be solved on fewer: what diffusion erases at once has no say in what remains."""
    fields = burgers_field(2, 8192, seed=2)
    coarse, fine = (solve_burgers(truncated(fields, n), VISCOSITY, 1.0, PERIOD, steps=1024) for n in (512, 2048))
    torch.testing.assert_close(coarse, fine[:, ::4], rtol=0, atol=1e-11)


def test_made_data_is_the_field_and_its_exact_solution_at_full_resolution() -> None:
    a, u = make_burgers(BurgersSettings(samples=4, seed=5), range(4))
    fields = burgers_field(4, 8192, seed=5)
    assert a.shape == u.shape == (4, 8192)
    assert a.dtype == u.dtype == np.float32
    np.testing.assert_array_equal(a, fields.float().numpy())
    np.testing.assert_allclose(u, cole_hopf(fields, 1.0).numpy(), rtol=0, atol=2e-7)


def test_made_data_is_the_same_in_chunks_and_on_every_grid() -> None:
    settings = BurgersSettings(samples=6, size=512, seed=1)
    a, u = make_burgers(settings, range(6))
    for first, last in ((0, 1), (1, 4), (4, 6)):
        part_a, part_u = make_burgers(settings, range(first, last))
        np.testing.assert_array_equal(part_a, a[first:last])
        np.testing.assert_allclose(part_u, u[first:last], rtol=0, atol=2e-7)
    for size, every in ((64, 8), (256, 2)):
        coarse_a, coarse_u = make_burgers(BurgersSettings(samples=6, size=size, seed=1), range(6))
        np.testing.assert_allclose(coarse_a, a[:, ::every], rtol=0, atol=2e-7)
        np.testing.assert_allclose(coarse_u, u[:, ::every], rtol=0, atol=2e-7)


def test_thin_fronts_get_a_finer_grid() -> None:
    """At a tenth of the viscosity 512 points are too few; the data is right all the same."""
    settings = BurgersSettings(samples=1, size=512, seed=0, viscosity=0.01)
    fields = burgers_field(1, 8192, seed=0)
    too_coarse, fine = (solve_burgers(truncated(fields, n), 0.01, 1.0, PERIOD) for n in (512, 2048))
    assert (too_coarse - fine[:, ::4]).abs().max() > 1e-4
    np.testing.assert_allclose(make_burgers(settings, range(1))[1], fine[:, ::4].numpy(), rtol=0, atol=1e-6)


def test_a_field_is_solved_alike_alone_and_beside_a_faster_one() -> None:
    fields = burgers_field(2, 256, seed=0) * torch.tensor([[1.0], [8.0]], dtype=torch.float64)
    together = solve_burgers(fields, VISCOSITY, 0.2, PERIOD)
    for row in range(2):
        torch.testing.assert_close(
            solve_burgers(fields[row : row + 1], VISCOSITY, 0.2, PERIOD), together[row : row + 1], rtol=0, atol=1e-14
        )


def test_mean_is_kept_and_a_mean_carries_the_field_along() -> None:
    """With a mean c, the solution is the one without, moved by c t."""
    start = one_wave(256, 0.0, 1.2)
    period_part = PERIOD / 8
    moved = solve_burgers(start + period_part, VISCOSITY, 1.0, PERIOD)
    torch.testing.assert_close(moved, one_wave(256, 1.0, 1.2).roll(32, dims=-1) + period_part, rtol=0, atol=1e-9)


def test_too_few_steps_are_refused_with_the_number_that_is_stable() -> None:
    fields = burgers_field(2, 1024, seed=0)
    with pytest.raises(XDError, match="at least") as refused:
        solve_burgers(fields, VISCOSITY, 1.0, PERIOD, steps=10)
    least = int(refused.value.expected.split()[2])
    assert least > 10
    assert torch.isfinite(solve_burgers(fields, VISCOSITY, 1.0, PERIOD, steps=least)).all()
    with pytest.raises(XDError, match=f"at least {least}"):
        solve_burgers(fields, VISCOSITY, 1.0, PERIOD, steps=least - 1)


def test_fronts_that_no_grid_resolves_are_refused() -> None:
    with pytest.raises(XDError, match="too thin"):
        make_burgers(BurgersSettings(samples=1, size=64, viscosity=1e-6, time=0.01), range(1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"viscosity": 0.0}, "viscosity"),
        ({"viscosity": -0.1}, "viscosity"),
        ({"viscosity": math.nan}, "viscosity"),
        ({"time": 0.0}, "time"),
        ({"period": -1.0}, "period"),
        ({"steps": 0}, "steps"),
        ({"samples": 0}, "samples"),
        ({"size": 255}, "even"),
        ({"size": 0}, "size"),
        ({"seed": -3}, "seed"),
    ],
)
def test_bad_settings_are_refused(change, named) -> None:
    with pytest.raises(XDError, match=named):
        BurgersSettings(**change)


def test_samples_outside_the_settings_are_refused() -> None:
    with pytest.raises(XDError, match="0 to 3"):
        make_burgers(BurgersSettings(samples=4, size=64), range(2, 6))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (torch.full((2, 64), math.nan, dtype=torch.float64), "not finite"),
        (torch.zeros(64, dtype=torch.float64), "shape"),
        (torch.zeros(2, 63, dtype=torch.float64), "even"),
        (torch.zeros(2, 64, dtype=torch.int64), "real"),
        (torch.zeros(2, 64, dtype=torch.bfloat16), "float32 or float64"),
    ],
)
def test_bad_fields_are_refused(fields, named) -> None:
    with pytest.raises(XDError, match=named):
        solve_burgers(fields, VISCOSITY, 1.0, PERIOD)
