"""PDNET's residual networks."""

import pytest
import torch
from torch import nn

from xdops.backbones import DistanceResNet, Request, dilated_resnet
from xdops.errors import XDError

MAPS = Request("dense", 57, 1, (24, 24))


def seen(network: nn.Module) -> int:
    """How far an output looks, in residues: where its gradient reaches."""
    x = torch.randn(1, 57, 65, 65, requires_grad=True)
    network.eval()(x)[0, 0, 32, 32].backward()
    assert x.grad is not None
    rows = x.grad.abs().sum(dim=(0, 1, 3)).nonzero().flatten()
    return int((rows - 32).abs().max())


def positive(network: nn.Module) -> nn.Module:
    """No ReLU is closed: every path of the network is seen."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                module.weight.abs_()
                module.bias.fill_(1.0)  # type: ignore[union-attr]
    return network


def test_eighteen_layers_have_the_papers_number_of_parameters() -> None:
    """0.038 million; we have biases, which the paper's count leaves no room for."""
    network = DistanceResNet(MAPS, 18)
    biases = sum(m.bias.numel() for m in network.modules() if isinstance(m, nn.Conv2d) and m.bias is not None)
    assert round((sum(p.numel() for p in network.parameters()) - biases) / 1e6, 3) == 0.038


@pytest.mark.parametrize("depth", [4, 6, 10])
def test_the_depth_is_the_number_of_convolutions(depth: int) -> None:
    for network in (DistanceResNet(MAPS, depth), dilated_resnet(MAPS, depth)):
        assert sum(isinstance(m, nn.Conv2d) for m in network.modules()) == depth
        y = network(torch.randn(2, 57, 24, 24))
        assert y.shape == (2, 1, 24, 24)
        assert (y >= 0).all()


def test_dilations_go_1_2_4_1_and_widen_what_an_output_sees() -> None:
    network = dilated_resnet(MAPS, 10)
    convolutions = [block.conv2 for block in network.blocks]
    assert [c.dilation for c in convolutions] == [(1, 1), (2, 2), (4, 4), (1, 1)]
    assert seen(positive(DistanceResNet(MAPS, 10))) == 9
    assert seen(positive(network)) == 13


@pytest.mark.parametrize("depth", [2, 5])
def test_a_depth_that_no_blocks_give_is_refused(depth: int) -> None:
    with pytest.raises(XDError, match=f"depth={depth}"):
        DistanceResNet(MAPS, depth)
