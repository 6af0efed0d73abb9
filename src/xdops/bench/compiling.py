"""How long `torch.compile` takes for a network of two convolutions, and for the same network of XD-operations."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from xdops.convert import XDConfig, arch_parameters, convert_

#: torch's own names: tracing and autograd alone, and with code that is made for this machine.
BACKENDS = ("aot_eager", "inductor")

#: What is compiled: the backbone, and the backbone converted in different ways.
NETWORKS: dict[str, XDConfig | None] = {
    "convolutions": None,
    "XD": XDConfig(),
    "shift-invariant XD, span 8": XDConfig(shift_invariant=True, span=8),
}

#: Two dimensions, as in most networks.
SHAPE = (8, 3, 32, 32)


def two_convolutions(config: XDConfig | None) -> nn.Module:
    """Converted, and moved away from its start, where it has one."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    if config is not None:
        convert_(model, torch.zeros(SHAPE), config)
        with torch.no_grad():
            for p in arch_parameters(model):
                p.mul_(1.01)
    return model


def measure_compiling(backend: str, repetitions: int, tick: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Per network the seconds of the first step of a compiled network, forward and backward, and of a later one: medians."""
    x = torch.randn(SHAPE)
    first_step(nn.Sequential(nn.Conv2d(3, 3, 1)), x, backend)  # loads the compiler
    found = {}
    for name, config in NETWORKS.items():
        seconds = []
        for i in range(repetitions):
            tick(f"{backend}: {name}, {i + 1} of {repetitions}")
            seconds.append(first_step(two_convolutions(config), x, backend))
        first, later = (sorted(each)[repetitions // 2] for each in zip(*seconds, strict=True))
        found[name] = {"first": first, "later": later}
    return found


def first_step(model: nn.Module, x: Tensor, backend: str) -> tuple[float, float]:
    """Seconds of the first and of the second step. Nothing that was compiled before is used, in memory or on disk."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    seconds = []
    with torch._inductor.config.patch(force_disable_caches=True):
        for _ in range(2):
            start = time.perf_counter()
            compiled(x).square().sum().backward()
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]
