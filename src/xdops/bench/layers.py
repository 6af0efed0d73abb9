"""The layers that are timed: those of the paper's applications, at their sizes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xdops.backbones.fno import SpectralConv

_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class BenchLayer:
    """A convolution without bias, its input, and the modes of the FNO layer that a PDE user would pick instead."""

    name: str
    batch: int
    channels: tuple[int, int]
    size: tuple[int, ...]
    kernel: int
    padding: int
    mode: str = "zeros"
    causal: bool = False
    modes: int | None = None
    depth: int | None = None  # of the operation, the least that holds the layer if it is None

    def conv(self) -> nn.Module:
        make: Any = _CONVS[len(self.size) - 1]
        return make(*self.channels, self.kernel, padding=self.padding, padding_mode=self.mode, bias=False)

    def fno(self) -> nn.Module | None:
        return None if self.modes is None else SpectralConv(*self.channels, [self.modes] * len(self.size))

    def input(self) -> Tensor:
        return torch.randn(self.batch, self.channels[0], *self.size, requires_grad=True)


def _square(name: str, batch: int, c_in: int, c_out: int, n: int, kernel: int, padding: int) -> BenchLayer:
    return BenchLayer(name, batch, (c_in, c_out), (n, n), kernel, padding)


LAYERS = (
    *(BenchLayer(f"burgers-{n}", 20, (64, 64), (n,), 17, 8, "circular", modes=16) for n in (256, 1024, 8192)),
    BenchLayer("darcy-85", 20, (32, 32), (85, 85), 13, 6, "circular", modes=12),
    BenchLayer("darcy-141", 5, (32, 32), (141, 141), 13, 6, "circular", modes=12),
    BenchLayer("navier-stokes", 1, (20, 20), (64, 64, 20), 9, 4, "circular", modes=8),
    _square("psicov-128", 2, 16, 16, 128, 3, 1),
    _square("cifar-32", 128, 16, 16, 32, 3, 1),
    _square("cifar-16", 128, 32, 32, 16, 3, 1),
    _square("cifar-8", 128, 64, 64, 8, 3, 1),
    _square("lenet-1", 128, 3, 6, 32, 5, 0),
    _square("lenet-2", 128, 6, 16, 14, 5, 0),
    BenchLayer("jsb", 1, (150, 150), (160,), 2, 1, causal=True),
    BenchLayer("nottingham", 1, (150, 150), (256,), 6, 5, causal=True),
    BenchLayer("pmnist", 32, (25, 25), (784,), 7, 6, causal=True),
    BenchLayer("pmnist-deep", 64, (25, 25), (784,), 7, 3, depth=3),
)
