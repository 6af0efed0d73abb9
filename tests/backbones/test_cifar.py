"""The image backbones are the published ones, and both search spaces start as exactly them."""

import copy
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import torch
from torch import Tensor, nn

from xdops import XDConfig, XDOperation, convert_, revert_
from xdops.backbones import build_backbone
from xdops.backbones.lenet import LeNet
from xdops.backbones.request import Request
from xdops.backbones.resnet import SHORTCUTS, ResNet8, ResNet20, ResNetBlock
from xdops.backbones.wide_resnet import WideResNet
from xdops.convert.edges import edges
from xdops.errors import XDError
from xdops.spaces import darts_

CIFAR = Request("classification", 3, 10, (32, 32))

#: The paper's settings, but for the boundary, where they would wrap around.
PAPER = XDConfig(depth=3, kernel_size=5, b="trained", C="trained", boundary="exact", max_pools=True, skips=True)
WITH_SHORTCUTS = XDConfig(
    depth=3, kernel_size=5, b="trained", C="trained", boundary="exact", max_pools=True, skips=True, shortcuts=SHORTCUTS
)


def parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def with_pools(pool: Callable[[], nn.Module]) -> LeNet:
    network = LeNet(CIFAR)
    network.pool1, network.pool2 = pool(), pool()  # type: ignore[assignment]
    return network


def unlike_fresh(network: nn.Module) -> nn.Module:
    """Norms as after training, so that nothing cancels or vanishes by accident."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            nn.init.normal_(module.running_mean, std=0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return network.eval()


def by_architecture(network: nn.Module, x: Tensor) -> Tensor:
    """What the matrices compute, not the layers that stand in for them while nothing has been learned."""
    with torch.no_grad(), ExitStack() as stack:
        for module in network.modules():
            if isinstance(module, XDOperation):
                stack.enter_context(module.by_architecture())
        return network(x)


@pytest.mark.parametrize(
    ("build", "count"),
    [(LeNet, 62_006), (ResNet20, 269_722), (WideResNet, 8_955_050)],  # the paper: 0.27 and 8.96 million for the latter two
)
def test_networks_have_the_published_number_of_parameters(build: Callable[[Request], nn.Module], count: int) -> None:
    network = build(CIFAR)
    assert parameters(network) == count
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size != (1, 1)]
    assert len(convolutions) == {LeNet: 2, ResNet20: 19, WideResNet: 37}[build]


@pytest.mark.parametrize(
    ("name", "build"), [("lenet", LeNet), ("resnet8", ResNet8), ("resnet20", ResNet20), ("wrn-40-4", WideResNet)]
)
def test_networks_are_found_by_name(name: str, build: type[nn.Module]) -> None:
    assert type(build_backbone(name, CIFAR, seed=0)) is build


@pytest.mark.parametrize("spatial", [(20,), (17, 19), (16, 16, 16)], ids=str)
@pytest.mark.parametrize("build", [LeNet, ResNet20, lambda r: WideResNet(r, 10, 1)], ids=["lenet", "resnet", "wide"])
def test_networks_take_signals_images_and_volumes(build: Callable[[Request], nn.Module], spatial: tuple[int, ...]) -> None:
    network = build(Request("classification", 2, 5, spatial))
    network(torch.randn(2, 2, *spatial)).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_where_a_stage_begins_the_shortcut_keeps_every_second_point_and_adds_channels_of_zeros() -> None:
    x = torch.randn(2, 16, 6, 8)
    y = ResNetBlock(2, 16, 32, 2).shortcut(x)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


CASES = {
    "lenet": (lambda: with_pools(lambda: nn.AvgPool2d(2)), PAPER, 2 + 2),
    "resnet20": (lambda: ResNet20(CIFAR), WITH_SHORTCUTS, 19 + 9),
    "wide": (lambda: WideResNet(CIFAR, depth=16, widen=2), PAPER, 13 + 3 + 3),  # two blocks in a stage, one of them projecting
}


@pytest.mark.parametrize("name", CASES)
def test_conversion_to_xd_is_exact_and_leaves_no_layer_out(name: str) -> None:
    build, config, layers = CASES[name]
    network, x = unlike_fresh(build()), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = network(x)
    converted = copy.deepcopy(network)
    report = convert_(converted, x, config)
    assert len(report.converted) == layers
    assert not report.left_alone
    assert all(row.depth == (3, 3, 3) for row in report.converted)
    assert report.error < 1e-5
    assert float((by_architecture(converted, x) - expected).abs().max() / expected.abs().max()) < 1e-5
    revert_(converted)
    with torch.no_grad():
        assert torch.equal(converted(x), expected)


def test_the_max_pools_of_lenet_start_as_average_pools() -> None:
    network, x = LeNet(CIFAR), torch.randn(2, 3, 32, 32)
    average = with_pools(lambda: nn.AvgPool2d(2))
    average.load_state_dict(network.state_dict())
    report = convert_(network, x, PAPER)
    assert [row.was for row in report.converted] == ["Conv2d 5x5", "MaxPool2d 2x2", "Conv2d 5x5", "MaxPool2d 2x2"]
    torch.testing.assert_close(by_architecture(network, x), average(x).detach(), rtol=1e-5, atol=1e-5)


def test_wide_networks_convert_as_in_the_paper_with_small_filters_and_fixed_gates() -> None:
    network, x = unlike_fresh(WideResNet(CIFAR, depth=10, widen=1)), torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        expected = network(x)
    convert_(network, x, XDConfig(depth=3, skips=True))
    assert float((by_architecture(network, x) - expected).abs().max() / expected.abs().max()) < 1e-5


def lenet_as_darts_starts() -> LeNet:
    """The DARTS set has no 2x2 pool: the closest is the 3x3 pool with the same outputs."""
    return with_pools(lambda: nn.MaxPool2d(3, stride=2, padding=1))


@pytest.mark.parametrize("name", CASES)
def test_the_darts_relaxation_at_perturb_zero_is_the_backbone(name: str) -> None:
    build, config, layers = (lenet_as_darts_starts, PAPER, 4) if name == "lenet" else CASES[name]
    network, x = unlike_fresh(build()), torch.randn(2, 3, 32, 32)
    relaxed = copy.deepcopy(network)
    if name == "lenet":  # what is relaxed is LeNet itself, with its pools of 2x2
        relaxed.pool1, relaxed.pool2 = nn.MaxPool2d(2), nn.MaxPool2d(2)
    report = darts_(relaxed, x, config, perturb=0.0)
    assert len(report.converted) == layers
    assert not report.left_alone
    with torch.no_grad():
        torch.testing.assert_close(relaxed(x), network(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("space", [convert_, darts_])
def test_every_edge_of_a_relaxed_network_learns(space: Callable[..., object]) -> None:
    network, x = ResNet20(Request("classification", 3, 10, (16, 16))), torch.randn(2, 3, 16, 16)
    space(network, x, WITH_SHORTCUTS)
    network(x).logsumexp(1).sum().backward()
    gradients = {f"{edge}.{name}": p.grad for edge, module in edges(network) for name, p in module.architecture()}
    still = [name for name, g in gradients.items() if g is None or not g.isfinite().all() or not g.any()]
    assert len(gradients) >= 19 + 9
    # The filters of a shortcut start with no influence, L = 0: all else of it learns from the first step.
    assert all(".shortcut.L." in name for name in still)


def test_grids_too_small_for_lenet_are_refused() -> None:
    with pytest.raises(XDError, match=r"a grid of 15 x 32 for LeNet.*at least 16"):
        LeNet(Request("classification", 3, 10, (15, 32)))


@pytest.mark.parametrize("depth", [4, 20, 41])
def test_depths_that_no_wide_network_has_are_refused(depth: int) -> None:
    with pytest.raises(XDError, match=rf"depth={depth}; expected four more than a multiple of six"):
        WideResNet(CIFAR, depth)
