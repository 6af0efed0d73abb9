"""The networks that are compared: the FNO family with convolutions or Fourier layers, plain or relaxed into a search space."""

import torch
from torch import nn

from xdops.backbones.fno import operator_fno
from xdops.backbones.operator import operator_cnn
from xdops.backbones.request import Request
from xdops.convert import XDConfig
from xdops.operations.warmstart import Presence
from xdops.reproduce.pde.presets import METHODS, Preset
from xdops.spaces import SpaceSettings, apply


def build_network(method: str, request: Request, preset: Preset, seed: int) -> nn.Module:
    """Only the four operations become searchable, not the 1x1 convolutions around them. Methods of one backbone start alike."""
    backbone, space = METHODS[method]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = (
            operator_fno(request, preset.width, preset.modes)
            if backbone == "fno"
            else operator_cnn(request, preset.width, preset.kernel)
        )
        presence: Presence = "trained" if preset.trained_b_and_C else "absent"
        settings = SpaceSettings(XDConfig(depth=1, b=presence, C=presence, domain=preset.domain), filter_fn=is_operation)
        apply(space, network, torch.zeros(2, *request.input_shape), settings)
    return network


def is_operation(name: str, module: nn.Module) -> bool:
    return name.endswith(".operation")
