"""`python -m xdops.bench.memory LAYER conv|xd`: the peak memory that a layer's training passes add to a process, in bytes.

The resident size is read from the kernel, so that everything counts: results, gradients, the libraries' own buffers.
"""

import sys
from collections.abc import Callable

import torch
from torch import nn

from xdops.bench.layers import LAYERS
from xdops.operations import from_conv


def _status(field: str) -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/self/status")


def load_libraries() -> None:
    """The first convolution and the first products load code, which is nobody's working memory."""
    x = torch.randn(2, 8, 32, 32, requires_grad=True)
    nn.Conv2d(8, 8, 3)(x).sum().backward()
    a = torch.randn(8, 64, 64, requires_grad=True)
    (torch.bmm(a, a) @ torch.randn(64, 64)).sum().backward()


def peak_from_here() -> Callable[[], int]:
    """A function that tells by how much this process has grown since, at its largest."""
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak counts from here
    before = _status("VmRSS")
    return lambda: _status("VmHWM") - before


def main(name: str, what: str) -> None:
    layer = next(one for one in LAYERS if one.name == name)
    load_libraries()
    x, conv = layer.input(), layer.conv()
    module = conv if what == "conv" else from_conv(conv, layer.size, causal=layer.causal)
    with torch.no_grad():
        g = torch.randn(layer.batch, *conv(x[:1]).shape[1:])
    peak = peak_from_here()
    for _ in range(3):
        x.grad = None
        module.zero_grad()
        module(x).backward(g)
    print(peak())


if __name__ == "__main__":
    main(*sys.argv[1:])
