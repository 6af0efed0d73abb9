"""Backbones whose convolutions become shift-invariant operations."""

import pytest
import torch
from torch import nn

from xdops.backbones.request import Request
from xdops.backbones.tcn import TCN
from xdops.convert import XDConfig, arch_parameters, convert_, merge_, novelty, revert_, unmerge_
from xdops.errors import XDError
from xdops.operations import ShiftInvariantOperation


def wide(name: str, module: nn.Module) -> bool:
    return getattr(module, "kernel_size", (2,)) != (1,)


def make(dilated: bool = True) -> TCN:
    torch.manual_seed(0)
    return TCN(Request("dense", 3, 3, (1,)), 2, 2, 4, dilated=dilated).double().eval()


CONFIG = XDConfig(shift_invariant=True, span=8, causal=True)


@pytest.mark.parametrize("dilated", [True, False])
def test_a_tcn_starts_exactly_and_takes_any_length(dilated):
    network, plain = make(dilated), make(dilated)
    report = convert_(network, torch.randn(1, 3, 9, dtype=torch.float64), CONFIG, wide)
    assert [row.size for row in report.converted] == [(8,)] * 4
    assert report.error < 1e-12
    for steps in (1, 5, 40):
        x = torch.randn(2, 3, steps, dtype=torch.float64)
        torch.testing.assert_close(network(x), plain(x), rtol=1e-10, atol=1e-10)


def test_merged_it_is_convolutions_and_reverted_the_backbone():
    network = make()
    x = torch.randn(1, 3, 20, dtype=torch.float64)
    convert_(network, x, CONFIG, wide)
    with torch.no_grad():
        for p in arch_parameters(network):
            p.add_(0.05 * torch.randn_like(p))
        expected = network(x)
        merge_(network)
        assert not any(isinstance(m, ShiftInvariantOperation) for m in network.modules())
        torch.testing.assert_close(network(x), expected, rtol=1e-10, atol=1e-10)
        unmerge_(network)
        torch.testing.assert_close(network(x), expected, rtol=1e-10, atol=1e-10)
    assert min(novelty(network).values()) > 0
    assert not revert_(network).exact
    torch.testing.assert_close(network(x), make()(x), rtol=1e-10, atol=1e-10)


def test_a_searched_tcn_never_sees_the_future():
    network = make()
    convert_(network, torch.randn(1, 3, 20, dtype=torch.float64), CONFIG, wide)
    with torch.no_grad():
        for p in arch_parameters(network):
            p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(1, 3, 30, dtype=torch.float64, requires_grad=True)
    seen = torch.autograd.grad(network(x)[0, :, 17].sum(), x)[0][0].abs().sum(0)
    assert seen[18:].abs().max() == 0
    assert (seen[:18] > 0).sum() > 7  # more than the seven steps that the backbone sees


def test_images_may_be_searched_so_and_other_layers_are_left_alone():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.AvgPool2d(2), nn.Conv2d(2, 2, 3, stride=2)).double()
    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    expected = network(x)
    report = convert_(network, x, XDConfig(shift_invariant=True, span=5))
    assert [row.name for row in report.left_alone] == ["1"]
    torch.testing.assert_close(network(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"), [({"span": 0}, "span=0"), ({"span": 10**9}, "at most 1048576"), ({"boundary": "wrap"}, "wrap")]
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(XDError, match=message):
        XDConfig(shift_invariant=True, **settings)
