"""The networks that are compared: PDNET's residual network, the same with dilations, and XD-operations in the former's place."""

import torch
from torch import nn

from xdops.backbones.distances import DistanceResNet, dilated_resnet
from xdops.convert import XDConfig
from xdops.reproduce.protein.problem import request_of
from xdops.spaces import SpaceSettings, apply

RESNET, DILATED, XD = "ResNet", "dilated ResNet", "ResNet XD"
METHODS = (RESNET, DILATED, XD)
#: Depth 1, b and C absent, as in the paper; exact at the boundary.
CONFIG = XDConfig(depth=1, pointwise=False)


def build_network(method: str, depth: int, crop: int, seed: int) -> nn.Module:
    """The network of this seed; the plain one and XD start from the same weights, as the same function."""
    request = request_of(crop)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = dilated_resnet(request, depth) if method == DILATED else DistanceResNet(request, depth)
        if method == XD:
            apply("xd", network, torch.zeros(2, *request.input_shape), SpaceSettings(CONFIG))
    return network
