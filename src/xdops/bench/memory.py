"""`python -m xdops.bench.memory LAYER conv|xd`: the peak memory that a layer's training passes add to a process, in bytes.

The resident size is read from the kernel, so that everything counts: results, gradients, the libraries' own buffers. Code does not:
libraries and kernels are loaded before.
"""

import subprocess
import sys
from collections.abc import Callable

import torch

from xdops.bench.layers import LAYERS
from xdops.engine.workspace import release_scratch
from xdops.measuring.memory import peak_from_here
from xdops.operations import from_conv


def peak_memory(layer: str, what: str) -> int | None:
    """Bytes that three forward and backward passes of the layer add, at their peak, in a process of their own; None off Linux."""
    done = subprocess.run([sys.executable, "-m", "xdops.bench.memory", layer, what], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def peak_of_training(step: Callable[[], object], release: Callable[[], object]) -> int:
    """Bytes that three training steps add, at their peak, after one that loads code, which is nobody's working memory."""
    step()
    release()
    release_scratch()
    peak = peak_from_here()
    for _ in range(3):
        step()
    return peak()


def main(name: str, what: str) -> None:
    layer = next(one for one in LAYERS if one.name == name)
    x, conv = layer.input(), layer.conv()
    module = conv if what == "conv" else from_conv(conv, layer.size, layer.depth, causal=layer.causal, domain="half")
    with torch.no_grad():
        g = torch.randn(layer.batch, *conv(x[:1]).shape[1:])

    def release() -> None:
        x.grad = None
        module.zero_grad()

    def step() -> None:
        release()
        module(x).backward(g)

    print(peak_of_training(step, release))


if __name__ == "__main__":
    main(*sys.argv[1:])
