"""A backbone by name: the default of the task's kind, one of ours, or the user's own `package.module:function`."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence

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
from xdops.errors import XDError, first_line, is_memory

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
CAUSAL_HINT = "--backbone tcn, or in a network of your own convolutions padded on the left alone"
#: Relative; what single precision makes of sums in another order is far below it.
SEES_LATER_STEPS = 1e-4


def build_backbone(name: str, request: Request, seed: int) -> nn.Module:
    """The network, initialised from `seed` (the global random state is left alone) and checked on two examples."""
    builder = find_builder(DEFAULT[request.kind] if name == "auto" else name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            network = builder(request)
        except (XDError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if is_memory(error):
                raise
            raise XDError(f"backbone {name}, which failed for {request}: {first_line(error)}", "a network", HINT) from error
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise XDError(
            f"backbone {name!r}, whose module cannot be imported ({first_line(error)})",
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
        hint = CAUSAL_HINT if request.ragged else HINT
        _output(name, network, torch.zeros(2, *request.input_shape), request.output_shape, hint)
        if request.ragged:
            _check_causal(name, network, request)
    finally:
        network.train(was_training)


def _output(name: str, network: nn.Module, x: torch.Tensor, shape: Sequence[int], hint: str) -> torch.Tensor:
    """What it says about these examples, if that is a tensor with an entry of this shape for each."""
    try:
        with torch.no_grad():
            output = network(x)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or is_memory(error):
            raise
        if isinstance(error, XDError):  # one of our operations, which knows better what to try
            raise XDError(f"backbone {name} with {error.given}", error.expected, error.hint) from error
        raise XDError(
            f"backbone {name}, which fails on inputs of shape ({', '.join(map(str, x.shape))}): {first_line(error)}",
            "a network for (batch, channels, *grid)",
            HINT,
        ) from error
    expected = (len(x), *shape)
    if not isinstance(output, torch.Tensor) or tuple(output.shape) != expected:
        given = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise XDError(f"backbone {name} with outputs {given} for inputs of shape {tuple(x.shape)}", f"{expected}", hint)
    return output


def _check_causal(name: str, network: nn.Module, request: Request) -> None:
    """Of the first steps of a sequence it must say what it says of them within the whole: it then looks back alone, at any length.

    Two lengths, an odd and an even one: a network that halves its grid may look ahead at every second step only.
    """
    x = torch.randn(2, *request.input_shape)
    whole = _output(name, network, x, request.output_shape, CAUSAL_HINT)
    for steps in (half for half in (x.shape[2] // 2, x.shape[2] // 2 + 1) if 0 < half < x.shape[2]):
        part = _output(name, network, x[..., :steps], (request.outputs, steps), CAUSAL_HINT)
        if float((part - whole[..., :steps]).abs().max()) > SEES_LATER_STEPS * float(whole.abs().max()):
            raise XDError(
                f"backbone {name}, whose outputs at the first {steps} of {x.shape[2]} steps depend on the later ones",
                "a causal network: what it says at a step depends on that step and on earlier ones alone",
                CAUSAL_HINT,
            )
