"""A backbone by name: the default of the task's kind, one of ours, or the user's own `package.module:function`."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable

import torch
from torch import nn

from xdops.backbones.fno import operator_fno
from xdops.backbones.lenet import LeNet
from xdops.backbones.operator import operator_cnn, walled_cnn
from xdops.backbones.request import Request
from xdops.backbones.residual import ResidualCNN
from xdops.backbones.resnet import ResNet8, ResNet20
from xdops.backbones.small import SmallCNN
from xdops.backbones.tcn import small_tcn, undilated_tcn
from xdops.backbones.unet import UNet
from xdops.backbones.wide_resnet import WideResNet
from xdops.errors import XDError, is_memory

Builder = Callable[[Request], nn.Module]

NAMED: dict[str, Builder] = {
    "residual": ResidualCNN,
    "small": SmallCNN,
    "operator": walled_cnn,
    "periodic": operator_cnn,
    "cnn": operator_cnn,  # its name beside the FNO
    "unet": UNet,
    "fno": operator_fno,
    "lenet": LeNet,
    "resnet8": ResNet8,
    "resnet20": ResNet20,
    "wrn-40-4": WideResNet,
    "tcn": small_tcn,
    "undilated-tcn": undilated_tcn,
}
DEFAULT = {
    "classification": "residual",
    "regression": "residual",
    "dense": "operator",
    "next-step": "undilated-tcn",
    "sequence-class": "undilated-tcn",
}
HINT = "def build(request): ... returning an nn.Module, with request.in_channels, .outputs, .spatial, .kind"


def build_backbone(name: str, request: Request, seed: int) -> nn.Module:
    """The network, initialised from `seed` (the global random state is left alone) and checked on two examples."""
    builder = find_builder(DEFAULT[request.kind] if name == "auto" else name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            network = builder(request)
        except XDError:
            raise
        except (Exception, SystemExit) as error:
            if is_memory(error):
                raise
            raise XDError(
                f"backbone {name}, which failed for {request}: {type(error).__name__}: {error}", "a network", HINT
            ) from error
        check_network(name, network, request)
    return network


def find_builder(name: str) -> Builder:
    """The function that a name stands for."""
    if name in NAMED:
        return NAMED[name]
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise XDError(
            f"backbone {name!r}", f"auto, {', '.join(NAMED)}, or package.module:function", "--backbone mypackage.models:build"
        )
    _find_here(module_name.partition(".")[0])
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise XDError(
            f"backbone {name!r}, whose module cannot be imported ({type(error).__name__}: {error})",
            "a module that imports, installed or in the current folder",
            f"python -c 'import {module_name}'",
        ) from error
    builder = getattr(module, attribute, None)
    if not callable(builder):
        own = [n for n, f in vars(module).items() if callable(f) and inspect.getmodule(f) is module]
        raise XDError(f"backbone {name!r}: no function {attribute!r}", f"one of {module_name}'s: {', '.join(own) or 'none'}", HINT)
    return builder


def is_foreign(name: str) -> bool:
    """Whether a backbone is somebody's module:function, which building it would import."""
    return name != "auto" and name not in NAMED


def _find_here(package: str) -> None:
    """Let modules of the current folder be imported, as `python -m` does, if the one that is asked for lies there."""
    here = os.getcwd()
    lies_here = os.path.isfile(f"{here}/{package}.py") or os.path.isdir(f"{here}/{package}")
    if lies_here and here not in sys.path:
        sys.path.insert(0, here)


def check_network(name: str, network: object, request: Request) -> None:
    """It must be a module, take two examples and give outputs of the right shape."""
    if not isinstance(network, nn.Module):
        raise XDError(f"backbone {name}, which returned a {type(network).__name__}", "a torch.nn.Module", HINT)
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            output = network(torch.zeros(2, *request.input_shape))
    except Exception as error:
        if is_memory(error):
            raise
        raise XDError(
            f"backbone {name}, which fails on inputs of shape (2, {', '.join(map(str, request.input_shape))}): {error}",
            "a network for (batch, channels, *grid)",
            HINT,
        ) from error
    finally:
        network.train(was_training)
    expected = (2, *request.output_shape)
    if not isinstance(output, torch.Tensor) or tuple(output.shape) != expected:
        given = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise XDError(f"backbone {name} with outputs {given} for two examples", f"{expected}", HINT)
