"""Whole networks: a training step and its peak memory with convolutions, with XD-operations in both domains, and as FNO.

`python -m xdops.bench.networks NETWORK KIND BATCH` prints the peak memory, in bytes, that training steps of one add to a process.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from xdops.backbones import DistanceResNet, LeNet, Request, ResNet20, WideResNet, operator_cnn, operator_fno
from xdops.backbones.tcn import TCN
from xdops.bench.memory import peak_of_training
from xdops.bench.run import TimedStep
from xdops.convert import XDConfig, convert_
from xdops.measuring.timing import interleaved

KINDS = ("conv", "xd full", "xd half", "fno")


@dataclass(frozen=True)
class Network:
    """A backbone, what it is asked for, and the batch; which layers become operations, and how."""

    name: str
    build: Callable[[Request], nn.Module]
    request: Request
    batch: int
    config: XDConfig = field(default_factory=XDConfig)
    only: str = ""  # the end of the names of layers that are converted
    fno: Callable[[Request], nn.Module] | None = None

    def input(self) -> Tensor:
        return torch.randn(self.batch, *self.request.input_shape)

    def make(self, kind: str) -> nn.Module | None:
        """The network of this kind; None where there is none."""
        torch.manual_seed(0)
        if kind == "fno":
            return None if self.fno is None else self.fno(self.request)
        network = self.build(self.request)
        if kind != "conv":
            changed = {**vars(self.config), "domain": "full" if kind == "xd full" else "half"}
            example = torch.zeros(2, *self.request.input_shape)
            convert_(network, example, XDConfig(**changed), lambda name, module: name.endswith(self.only))
        return network


def _image(name: str, build: Callable[[Request], nn.Module], batch: int) -> Network:
    return Network(name, build, Request("classification", 3, 10, (32, 32)), batch)


def _pde(name: str, channels: int, size: tuple[int, ...], batch: int) -> Network:
    return Network(name, operator_cnn, Request("dense", channels, 1, size), batch, XDConfig(depth=1), ".operation", operator_fno)


NETWORKS = (
    _image("lenet", LeNet, 128),
    _image("resnet-20", ResNet20, 128),
    _image("wrn-40-4", WideResNet, 16),
    _pde("burgers-1024", 2, (1024,), 20),
    _pde("darcy-85", 3, (85, 85), 20),
    _pde("navier-stokes", 12, (64, 64, 20), 1),
    Network("protein-128", partial(DistanceResNet, depth=18), Request("dense", 57, 1, (128, 128)), 2),
    Network(
        "pmnist-tcn",
        partial(TCN, levels=8, kernel=7, width=25, dilated=False),
        Request("classification", 1, 10, (784,)),
        64,
        XDConfig(depth=3),
    ),
    Network(
        "nottingham-tcn", partial(TCN, levels=4, kernel=6, width=150), Request("dense", 88, 88, (160,)), 1, XDConfig(causal=True)
    ),
)


def training_step(network: nn.Module, x: Tensor) -> TimedStep:
    """Forward and backward of the mean square output: what the layers cost, whatever the task's loss."""

    def step() -> None:
        network.zero_grad()
        network(x).square().mean().backward()

    return step


def measure_network(network: Network, repetitions: int, memory: bool, tick: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Seconds of a training step and its ratio to the convolutional network's, and bytes, of every kind there is."""
    x = network.input()
    made = {kind: module for kind in KINDS if (module := network.make(kind)) is not None}
    steps = {kind: training_step(module.train(), x) for kind, module in made.items()}
    training = interleaved(steps, "conv", repetitions, tick)
    return {
        "network": network.name,
        "batch": network.batch,
        "training": {kind: t.to_dict() for kind, t in training.items()},
        "memory": {kind: peak_memory(network, kind) if memory else None for kind in made},
    }


def peak_memory(network: Network, kind: str) -> int | None:
    """Bytes that three training steps add, at their peak, in a process of their own; None off Linux."""
    command = [sys.executable, "-m", "xdops.bench.networks", network.name, kind, str(network.batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def main(name: str, kind: str, batch: str) -> None:
    network = dataclasses.replace(next(one for one in NETWORKS if one.name == name), batch=int(batch))
    module, x = network.make(kind), network.input()
    assert module is not None
    print(peak_of_training(training_step(module.train(), x), module.zero_grad))


if __name__ == "__main__":
    main(*sys.argv[1:])
