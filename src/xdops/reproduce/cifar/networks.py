"""The backbones, and the spaces over them as section 4 of the paper has them."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

from xdops.backbones.lenet import LeNet
from xdops.backbones.request import Request
from xdops.backbones.resnet import SHORTCUTS, ResNet8, ResNet20
from xdops.backbones.wide_resnet import WideResNet
from xdops.convert import XDConfig
from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.reproduce.cifar.problem import REQUEST
from xdops.spaces import SpaceSettings, apply

BUILD: dict[str, Callable[[Request], nn.Module]] = {
    "LeNet": LeNet,
    "ResNet-8": ResNet8,
    "ResNet-20": ResNet20,
    "WRN-40-4": WideResNet,
}

#: The layer that sees the images.
FIRST_LAYER = {"LeNet": "conv1", "ResNet-8": "stem.0", "ResNet-20": "stem.0", "WRN-40-4": "stem"}

#: Depth 3 holds convolutions after a permutation; pools and shortcuts are searched too. Where a backbone pads, operations wrap at
#: the images' own size, as in the paper. LeNet pads nowhere.
SMALL = XDConfig(depth=3, b="trained", C="trained", kernel_size=5, boundary="wrap", max_pools=True, skips=True)
CONFIG = {
    "LeNet": SMALL,
    "ResNet-8": dataclasses.replace(SMALL, shortcuts=SHORTCUTS),
    "ResNet-20": dataclasses.replace(SMALL, shortcuts=SHORTCUTS),
    "WRN-40-4": XDConfig(depth=3, boundary="wrap", pointwise=True, skips=True),  # b and C fixed, filters as they are
}


def build_network(backbone: str, space: str, darts_perturb: float, seed: int, domain: Domain = DEFAULT_DOMAIN) -> nn.Module:
    """The backbone of this seed, relaxed; all spaces start from the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BUILD[backbone](REQUEST)
        example = torch.zeros(2, *REQUEST.input_shape)
        apply(space, network, example, SpaceSettings(dataclasses.replace(CONFIG[backbone], domain=domain), darts_perturb))
    return network
