"""`python -m xdops.reproduce.cost NETWORK conv|xd BATCH STEPS`: what training a network costs, measured in a process of its own.

Prints JSON: seconds per step (the median), the peak of the memory that training adds to the process, and the number of parameters.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from xdops.backbones.distances import DistanceResNet
from xdops.backbones.operator import operator_cnn
from xdops.backbones.request import Request
from xdops.backbones.wide_resnet import WideResNet
from xdops.convert import XDConfig
from xdops.errors import XDError
from xdops.measuring.memory import load_libraries, peak_from_here
from xdops.spaces import SpaceSettings, apply


@dataclass(frozen=True)
class Case:
    """A network as the paper's table of costs has it: b and C absent, filters of the backbone's own size."""

    name: str
    request: Request
    build: Callable[[Request], nn.Module]
    depth: int
    batch_size: int
    examples: int  # of an epoch


CASES = {
    "wrn-40-4": Case("CIFAR-10 (WRN-40-4)", Request("classification", 3, 10, (32, 32)), WideResNet, 3, 128, 50_000),
    "darcy": Case("Darcy flow (Conv4)", Request("dense", 3, 1, (85, 85)), operator_cnn, 1, 20, 1000),
    "psicov": Case("PSICOV (ResNet-18)", Request("dense", 57, 1, (128, 128)), DistanceResNet, 1, 2, 3356),
}


def measure_cost(case: str, what: str, batch_size: int, steps: int) -> dict[str, float]:
    """Minutes per epoch, gigabytes and millions of parameters, from `steps` training steps in a new process."""
    command = [sys.executable, "-m", "xdops.reproduce.cost", case, what, str(batch_size), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
        raise XDError(f"{' '.join(command[1:])}, which failed: {reason}", "a training step", "a smaller batch, or more memory")
    found = json.loads(done.stdout)
    return {
        "minutes per epoch": found["seconds"] * CASES[case].examples / batch_size / 60,
        "memory (GB)": found["bytes"] / 1e9,
        "parameters (millions)": found["parameters"] / 1e6,
    }


def train_a_little(case: Case, what: str, batch_size: int, steps: int) -> dict[str, Any]:
    load_libraries()
    torch.manual_seed(0)
    network = case.build(case.request)
    example = torch.randn(batch_size, *case.request.input_shape)
    if what == "xd":
        apply("xd", network, example[:2], SpaceSettings(XDConfig(depth=case.depth, pointwise=False)))
    target = torch.randn(network(example[:2])[:1].expand(batch_size, *case.request.output_shape).shape)
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    peak = peak_from_here()
    seconds = []
    for _ in range(steps + 1):  # the first moves the architecture off its start, where it would run as the convolution
        start = time.perf_counter()
        optimizer.zero_grad()
        F.mse_loss(network(example), target).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    parameters = sum(p.numel() for p in network.parameters())
    return {"seconds": statistics.median(seconds[1:]), "bytes": peak(), "parameters": parameters}


if __name__ == "__main__":
    name, space, batch, count = sys.argv[1:]
    print(json.dumps(train_a_little(CASES[name], space, int(batch), int(count))))
