"""The networks that are compared: the FNO family with convolutions or Fourier layers, plain or relaxed into a search space."""

from dataclasses import replace

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
    kind, own = METHODS[method], preset.of(method)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = (
            operator_fno(request, preset.width, preset.modes)
            if kind.backbone == "fno"
            else operator_cnn(request, preset.width, preset.kernel)
        )
        presence: Presence = "trained" if own.trained_b_and_C else "absent"
        config = XDConfig(depth=1, b=presence, C=presence, domain=own.domain)
        if own.as_reference:
            config = replace(config, size="power", boundary="wrap")
        settings = SpaceSettings(config, filter_fn=is_operation)
        apply(kind.space, network, torch.zeros(2, *request.input_shape), settings)
    return network


def is_operation(name: str, module: nn.Module) -> bool:
    return name.endswith(".operation")
