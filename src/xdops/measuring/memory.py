"""The peak memory of this process, as the kernel counts it: results, gradients, the libraries' own buffers."""

import ctypes
import gc
from collections.abc import Callable

import torch
from torch import nn


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
    """A function that tells by how much this process has grown since, at its largest. What is free now is given back before."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak counts from here
    before = _status("VmRSS")
    return lambda: _status("VmHWM") - before
