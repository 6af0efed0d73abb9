"""`resize_`: on another grid a converted network is its backbone while untouched, and its own operators once it has learned."""

import copy

import pytest
import torch
from torch import Tensor, nn

import xdops
from xdops import SpectralConv, XDConfig, XDError
from xdops.operations.resampling import ResampledOperation, linear_interpolation, periodic_interpolation


def moved_(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for p in xdops.arch_parameters(model):
            p += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=p.dtype)
    return model


def waves(points: int, frequencies: int = 3) -> Tensor:
    """Band-limited functions on the circle, the same on every grid."""
    t = torch.arange(points, dtype=torch.float64) / points
    generator = torch.Generator().manual_seed(1)
    phases = 6 * torch.rand(4, 2, frequencies, 1, generator=generator, dtype=torch.float64)
    return torch.cos(2 * torch.pi * torch.arange(frequencies, dtype=t.dtype)[:, None] * t + phases).sum(dim=2)


def circular() -> nn.Sequential:
    torch.manual_seed(0)
    conv = nn.Conv1d(2, 3, 5, padding=2, padding_mode="circular")
    return nn.Sequential(conv, nn.ReLU(), nn.Conv1d(3, 2, 1)).double()


def fourier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(SpectralConv(2, 3, (3,)), nn.ReLU(), nn.Conv1d(3, 2, 1)).double()


@pytest.mark.parametrize("points", [10, 24, 32])
@pytest.mark.parametrize("make", [circular, fourier])
def test_an_untouched_network_is_exactly_its_backbone_on_every_grid(make, points: int):
    backbone = make()
    model = copy.deepcopy(backbone)
    xdops.convert_(model, waves(16))
    with torch.no_grad():
        for network in (backbone, model):
            network[2].weight *= 2  # trained weights, not those of the conversion
    report = xdops.resize_(model, waves(points))
    assert [(row.old, row.new) for row in report.layers] == [((16,), (points,))] * len(report.layers)
    torch.testing.assert_close(model(waves(points)), backbone(waves(points)), rtol=1e-10, atol=1e-10)
    assert all(p.requires_grad for p in xdops.arch_parameters(model))


@pytest.mark.parametrize("make", [circular, fourier])
def test_what_was_learned_is_the_same_at_the_points_of_training(make):
    model = make()
    xdops.convert_(model, waves(16), filter_fn=lambda name, module: name == "0")
    before = moved_(model)(waves(16)).detach()
    xdops.resize_(model, waves(48))
    finer = model(waves(48))
    torch.testing.assert_close(finer[..., ::3], before, rtol=1e-10, atol=1e-10)
    xdops.resize_(model, waves(16))
    assert not any(isinstance(module, ResampledOperation) for module in model.modules())
    assert torch.equal(model(waves(16)), before)


def test_images_with_strides_take_larger_inputs_and_merge_and_revert():
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 3, 3, padding=1, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)
    model = nn.Sequential(*layers).double()
    x, larger = torch.randn(2, 2, 8, 6, dtype=torch.float64), torch.randn(2, 2, 15, 12, dtype=torch.float64)
    xdops.convert_(model, x, XDConfig(pools=False))
    moved_(model)
    report = xdops.resize_(model, larger)
    assert "linear" in str(report)
    assert "15x12" in report._repr_html_()
    y = model(larger)
    y.sum().backward()
    assert all(p.grad is not None for p in xdops.arch_parameters(model))
    with pytest.raises(XDError, match="was resized"):
        xdops.save(model, "nowhere.safetensors")
    merged = copy.deepcopy(model)
    xdops.merge_(merged)
    torch.testing.assert_close(merged(larger), y, rtol=1e-9, atol=1e-9)
    xdops.revert_(model)
    assert [type(module) for module in model] == [type(layer) for layer in layers]


def test_shift_invariant_networks_take_any_length_as_they_are():
    model = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1))
    xdops.convert_(model, torch.randn(1, 1, 9), XDConfig(shift_invariant=True, span=5))
    assert not xdops.resize_(moved_(model), torch.randn(1, 1, 40)).layers


@pytest.mark.parametrize(
    ("model", "config", "says"),
    [
        (nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(18, 2)), XDConfig(), "cannot be resized"),
        (nn.Sequential(nn.Conv1d(1, 2, 3, padding=2)), XDConfig(causal=True), "a causal operation that has learned"),
    ],
)
def test_what_cannot_be_resized_says_so_and_stays_as_it_is(model: nn.Module, config: XDConfig, says: str):
    x = torch.randn(2, 1, 9)
    xdops.convert_(model, x, config)
    before = moved_(model)(x)
    with pytest.raises(XDError, match=says):
        xdops.resize_(model, torch.randn(2, 1, 12))
    assert torch.equal(model(x), before)


@pytest.mark.parametrize(("points", "others"), [(16, 40), (9, 21), (12, 12), (15, 9)])
def test_periodic_interpolation_is_exact_for_few_frequencies(points: int, others: int):
    torch.testing.assert_close(waves(points) @ periodic_interpolation(points, others).mT, waves(others), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("points", "others"), [(5, 9), (9, 5), (8, 16), (6, 4)])
def test_linear_interpolation_is_exact_for_straight_lines_within_the_grid(points: int, others: int):
    def line(n: int) -> Tensor:
        shared = (max(points, others) - 1) % (min(points, others) - 1) == 0
        return torch.linspace(0, 1, n, dtype=torch.float64) if shared else (torch.arange(n, dtype=torch.float64) + 0.5) / n

    inside = slice(1, -1)
    torch.testing.assert_close((linear_interpolation(points, others) @ line(points))[inside], line(others)[inside])
