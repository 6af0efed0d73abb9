"""Warm starts of every kind of layer, by its plain source: a torch convolution, a SpectralConv, a torch pool, or a Shortcut."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xdops.convert.config import XDConfig
from xdops.convert.layers import CONVS, TRANSPOSED, Shortcut, dimensions, each
from xdops.matrices.pairs import to_pairs
from xdops.operations import XDOperation
from xdops.operations.axes import Axis
from xdops.operations.catalogue import named
from xdops.operations.catalogue.fourier import SpectralConv, from_spectral_conv
from xdops.operations.warmstart import conv_geometry, deepen_input, deepen_output, from_conv, learned, resolve_depth

Size = tuple[int | None, ...]


def operation(
    source: nn.Module, channels: tuple[int, int], input_size: tuple[int, ...], size: Size, config: XDConfig, dtype: torch.dtype
) -> XDOperation:
    """The XD-operation that is `source`; a convolution's weight and bias are shared, and their dtype is its own."""
    if isinstance(source, (*CONVS, *TRANSPOSED)):
        depth, boundary, trained = config.depth, config.boundary, config.trained
        return from_conv(source, input_size, depth, size, boundary, config.b, config.C, trained, config.causal)
    if isinstance(source, SpectralConv):
        return from_spectral_conv(source, input_size, config.depth, config.b, config.C, config.trained)
    # A parameter-free layer gets filters, which do nothing while L = 0, so that it can become a convolution.
    filters = tuple(min(config.kernel_size or 1, m) for m in input_size)
    if isinstance(source, Shortcut):
        op = named.skip(channels[0], input_size, filters, dtype)
        axes = [Axis(a.size, stride=s) for a, s in zip(op.axes, source.stride, strict=True)]
        return parameter_free(op, axes, channels, source.offset, config)
    op = average_pool(source, channels[0], input_size, filters, dtype)
    return parameter_free(op, op.axes, channels, 0, config)


def average_pool(
    pool: nn.Module, channels: int, input_size: tuple[int, ...], filters: tuple[int, ...], dtype: torch.dtype
) -> XDOperation:
    """An average pool; for a max pool, the average pool of the same size."""
    dims = dimensions(pool)
    return named.average_pool(
        channels,
        each(pool.kernel_size, dims),
        input_size,
        stride=each(pool.stride, dims),
        dilation=each(getattr(pool, "dilation", 1), dims),
        padding=each(pool.padding, dims),
        ceil_mode=bool(pool.ceil_mode),
        count_include_pad=bool(getattr(pool, "count_include_pad", True)),
        kernel_size=filters,
        dtype=dtype,
    )


def parameter_free(op: XDOperation, axes: Sequence[Axis], channels: tuple[int, int], offset: int, config: XDConfig) -> XDOperation:
    """`op` with other axes, channels and depth: C carries input channel i to output channel i + offset."""
    c_in, c_out = channels
    K_depth, L_depth, M_depth = resolve_depth(config.depth, False)
    weight = torch.empty(c_out, c_in, *op.kernel_size, dtype=op.weight.dtype)
    nn.init.kaiming_uniform_(weight, a=5**0.5)  # as torch's convolutions start
    C = torch.zeros(c_out, c_in, dtype=weight.dtype)
    C[torch.arange(c_in) + offset, torch.arange(c_in)] = 1
    return XDOperation(
        axes,
        weight,
        [deepen_output(m, K_depth) for m in op.matrix("K").matrices],
        [deepen_input(m, L_depth) for m in op.matrix("L").matrices],
        [deepen_input(m, M_depth) for m in op.matrix("M").matrices],
        b=op.b,
        C=to_pairs(C),
        trained=learned(config.trained, config.b, config.C),
    )


def explicit_sizes(source: nn.Module, inputs: list[Tensor], config: XDConfig) -> Size:
    """The operation's size where it must be given: a circular axis that sees several lengths can be the period of none of them."""
    lengths = [set(seen) for seen in zip(*(x.shape[2:] for x in inputs), strict=True)]
    if config.boundary == "wrap" or getattr(source, "padding_mode", "") != "circular":
        return (None,) * len(lengths)
    padded = _PaddedExplicitly(source)
    return tuple(
        conv_geometry(padded, i, max(seen), None, False)[0].size if len(seen) > 1 else None for i, seen in enumerate(lengths)
    )


class _PaddedExplicitly:
    """A convolution's geometry with its circular padding taken as explicit padding."""

    padding_mode = "explicit"

    def __init__(self, conv: nn.Module) -> None:
        self.kernel_size, self.stride, self.dilation, self.padding = conv.kernel_size, conv.stride, conv.dilation, conv.padding


def perturb_(parameters: list[Tensor], relative: float, seed: int) -> None:
    """Add noise of relative Euclidean size `relative` to every tensor, the same on every device."""
    if relative == 0:
        return
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in parameters:
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            value = p.to("cpu", torch.float64)
            p.copy_(value + noise * (relative * value.square().mean().sqrt()))
