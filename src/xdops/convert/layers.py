"""The layers that can be converted, reduced to what they compute: plain convolutions, Fourier layers, pools and shortcuts."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import skip_init

from xdops.operations.catalogue.fourier import SpectralConv

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
AVG_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


class Shortcut(nn.Module):
    """A skip connection, perhaps between unlike shapes: every stride-th entry, `offset` zero channels before and more after."""

    def __init__(self, stride: Sequence[int], in_channels: int, out_channels: int, offset: int) -> None:
        super().__init__()
        self.stride, self.in_channels, self.out_channels, self.offset = tuple(stride), in_channels, out_channels, offset

    def forward(self, x: Tensor) -> Tensor:
        for dim, s in enumerate(self.stride, start=2):
            x = x[(slice(None),) * dim + (slice(None, None, s),)]
        after = self.out_channels - self.in_channels - self.offset
        return F.pad(x, (*(0, 0) * len(self.stride), self.offset, after))

    def extra_repr(self) -> str:
        return f"{self.in_channels} -> {self.out_channels}, stride={self.stride}"


def kind_of(module: nn.Module) -> str | None:
    """conv, transposed, fourier, avg_pool, max_pool or skip; None for everything else."""
    if isinstance(module, CONVS):
        return "conv"
    if isinstance(module, TRANSPOSED):
        return "transposed"
    if isinstance(module, SpectralConv):
        return "fourier"
    if isinstance(module, AVG_POOLS):
        return "avg_pool"
    if isinstance(module, MAX_POOLS):
        return "max_pool"
    if isinstance(module, nn.Identity) or (type(module) is nn.Sequential and len(module) == 0):
        return "skip"
    return None


def dimensions(module: nn.Module) -> int:
    """1, 2 or 3, of a convolution, Fourier layer or pool."""
    if isinstance(module, SpectralConv):
        return len(module.modes)
    for family in (CONVS, TRANSPOSED, AVG_POOLS, MAX_POOLS):
        for dims, base in enumerate(family, start=1):
            if isinstance(module, base):
                return dims
    raise TypeError(type(module).__name__)


def base_class(module: nn.Module) -> type[nn.Module]:
    """The class whose subclass a convolution, Fourier layer or pool is."""
    families: tuple[type[nn.Module], ...] = (*CONVS, *TRANSPOSED, SpectralConv, *AVG_POOLS, *MAX_POOLS)
    return next(base for base in families if isinstance(module, base))


def has_own_forward(module: nn.Module) -> bool:
    """Whether a subclass computes something of its own."""
    base: Any = base_class(module)
    own: Any = type(module)
    return own.forward is not base.forward or getattr(own, "_conv_forward", 0) is not getattr(base, "_conv_forward", 0)


def each(value: Any, dims: int) -> tuple[int, ...]:
    """One integer per dimension, from torch's int or tuple."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * dims


def plain_conv(conv: Any, kernel_size: int | None = None, dtype: torch.dtype | None = None) -> Any:
    """A torch convolution of the same shape with uninitialised parameters, its kernel and padding grown alike on both sides so
    that it is at least `kernel_size`: with zeros as the new taps it is the same function."""
    dims = dimensions(conv)
    growth = [max(0, math.ceil(((kernel_size or 1) - k) / 2)) for k in conv.kernel_size]
    padding = conv.padding
    if padding != "same":
        old = (0,) * dims if padding == "valid" else padding
        padding = tuple(p + g * d for p, g, d in zip(old, growth, conv.dilation, strict=True))
    options = {"output_padding": conv.output_padding} if isinstance(conv, TRANSPOSED) else {}
    return skip_init(
        base_class(conv),
        conv.in_channels,
        conv.out_channels,
        tuple(k + 2 * g for k, g in zip(conv.kernel_size, growth, strict=True)),
        stride=conv.stride,
        padding=padding,
        dilation=conv.dilation,
        groups=conv.groups,
        bias=conv.bias is not None,
        padding_mode=conv.padding_mode,
        dtype=dtype or conv.weight.dtype,
        device=conv.weight.device,
        **options,
    )


def blank(source: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A layer of the same shape with uninitialised parameters; one without parameters is its own blank."""
    if isinstance(source, SpectralConv):
        where = source.weight.device
        return skip_init(SpectralConv, source.in_channels, source.out_channels, source.modes, device=where, dtype=dtype)
    return plain_conv(source, dtype=dtype) if isinstance(source, (*CONVS, *TRANSPOSED)) else source


def centre(grown: Tensor, kernel: Sequence[int]) -> Tensor:
    """The middle taps of grown filters, as a view."""
    for dim, k in enumerate(kernel, start=2):
        grown = grown.narrow(dim, (grown.shape[dim] - k) // 2, k)
    return grown


def describe(module: nn.Module) -> str:
    """A short name for a table."""
    name = type(module).__name__.removeprefix("Parametrized")
    if kind_of(module) in (None, "skip"):
        return name
    if isinstance(module, SpectralConv):
        return f"{name} {'x'.join(map(str, module.modes))} modes"
    kernel = each(module.kernel_size, dimensions(module))
    text = f"{name} {'x'.join(map(str, kernel))}"
    for what, usual in (("stride", kernel if "Pool" in name else 1), ("dilation", 1), ("groups", 1)):
        value = getattr(module, what, usual)
        if each(value, len(kernel)) != each(usual, len(kernel)):
            text += f" {what} {value if isinstance(value, int) or len(set(value)) > 1 else value[0]}"
    return text
