"""Operations that the paper proves to be XD-operations, as architecture parameters of the depth it claims (section 3, Appendix A).

All are built from M = P F / sqrt(n), K = M^H and L = P conj(F), P being digit reversal, in 1, 2 or 3 dimensions. `input_size`
has one number per dimension, or is one number in one dimension. Weights start as torch's own layers start them.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.matrices import KMatrix, Kronecker, identity, smooth_size
from xdops.matrices.pairs import to_pairs
from xdops.operations.axes import Axis, TapPositions, choose_size
from xdops.operations.catalogue.graphs import checked_graph, propagation
from xdops.operations.catalogue.parts import (
    Sizes,
    cheapest_axes,
    check_channels,
    check_modes,
    check_real,
    fourier_pair,
    frequency_rows,
    in_dtype,
    initial_weight,
    mode_matrix,
    none_negative,
    one_per_dimension,
    outer,
    parameter_free,
    plain_b_and_C,
    spatial_dims,
    spatial_sizes,
    spread,
    with_matrices,
)
from xdops.operations.catalogue.pooling import pool_axis, row_scale
from xdops.operations.domains import Domain, fourier_in, halved
from xdops.operations.operation import XDOperation
from xdops.operations.warmstart import convolution_matrices, domain_points, filter_matrix, from_conv, per_dimension

__all__ = [
    "average_pool",
    "compose_input",
    "compose_output",
    "convolution",
    "depthwise_separable",
    "diffusion_graph_convolution",
    "fno",
    "fno_complex",
    "graph_convolution",
    "skip",
    "transposed_convolution",
    "zero",
]

_CONV: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@checked
def convolution(
    in_channels: int,
    out_channels: int,
    kernel_size: Sizes,
    input_size: Sizes,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    groups: int = 1,
    padding: Sizes | str = 0,
    padding_mode: str = "zeros",
    bias: bool = False,
    dtype: torch.dtype | None = None,
    domain: Domain = "full",
) -> XDOperation:
    """Claim 1: every convolution, at depth (1,3,1), or (1,1,1) without dilation.

    As in the paper the weights are all c_out x c_in filters and C = B, the 0/1 matrix of channel groups, decides which are used;
    `XDOperation.from_conv` keeps the smaller weights of a grouped torch layer instead.
    """
    dims = spatial_dims(input_size)
    check_channels(in_channels, out_channels)
    check_real(dtype)
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise XDError(f"{in_channels} to {out_channels} channels in {groups} groups", "channels divisible by groups", "groups=1")
    pad = padding if isinstance(padding, str) else none_negative(padding, dims, "padding")
    conv = _CONV[dims](
        in_channels,
        out_channels,
        per_dimension(kernel_size, dims, "kernel_size"),
        per_dimension(stride, dims, "stride"),
        pad,
        per_dimension(dilation, dims, "dilation"),
        bias=bias,
        padding_mode=padding_mode,
        dtype=dtype,
    )
    op = from_conv(conv, input_size, b="trained", C="trained", domain=domain)
    blocks = torch.ones(out_channels // groups, in_channels // groups)
    assert op.C is not None
    op.C.data = to_pairs(torch.block_diag(*[blocks] * groups)).to(op.C)
    op.source = None  # evaluated by its architecture, never as the layer
    return op


@checked
def skip(
    channels: int, input_size: Sizes, kernel_size: Sizes = 1, dtype: torch.dtype | None = None, domain: Domain = "full"
) -> XDOperation:
    """Claim 2: the identity, at depth (1,1,1): L = 0, b = 1, C = I. `kernel_size` is that of the weights, which it ignores."""
    axes = cheapest_axes(spatial_sizes(input_size), domain)
    return parameter_free(axes, torch.ones(domain_points(axes, domain)), channels, kernel_size, dtype, domain=domain)


@checked
def zero(
    channels: int, input_size: Sizes, kernel_size: Sizes = 1, dtype: torch.dtype | None = None, domain: Domain = "full"
) -> XDOperation:
    """Claim 2: the zero-operation, at depth (1,1,1): L = 0, b = 0, C = I."""
    axes = cheapest_axes(spatial_sizes(input_size), domain)
    return parameter_free(axes, torch.zeros(domain_points(axes, domain)), channels, kernel_size, dtype, domain=domain)


@checked
def average_pool(
    channels: int,
    pool_size: Sizes,
    input_size: Sizes,
    stride: Sizes | None = None,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    kernel_size: Sizes = 1,
    dtype: torch.dtype | None = None,
    domain: Domain = "full",
) -> XDOperation:
    """Claim 3: average pooling, at depth (1,1,1): L = 0, C = I, and b the transform of the pooling filter 1/k at its taps.

    Arguments are those of nn.AvgPool1d/2d/3d, and a dilation. Where fewer than k entries count (`count_include_pad=False`, or the
    cut-off last window of `ceil_mode`), the rows of K are scaled, a diagonal that costs no depth; as the count depends on where
    the signal ends, other input sizes are then refused unless their windows hold as many.
    """
    sizes = spatial_sizes(input_size)
    dims = len(sizes)
    pool = per_dimension(pool_size, dims, "pool_size")
    strides = pool if stride is None else per_dimension(stride, dims, "stride")
    dilations, pads = per_dimension(dilation, dims, "dilation"), none_negative(padding, dims, "padding")
    axes, filters, scales = [], [], []
    for m, k, s, d, p, half in zip(sizes, pool, strides, dilations, pads, halved(domain, dims), strict=True):
        axis, taps = pool_axis(m, k, s, d, p, ceil_mode, count_include_pad, half)
        axes.append(axis)
        filters.append(filter_matrix(axis.size, taps, 1, half).apply(torch.full((k,), 1 / k, dtype=torch.float64)))
        scales.append(row_scale(axis))
    return parameter_free(axes, outer(filters), channels, kernel_size, dtype, scales, domain)


@checked
def compose_input(op: XDOperation, A: KMatrix | Sequence[KMatrix] | Kronecker) -> XDOperation:
    """Claim 4: Op after Lin_A, at depth (d1, d2, d3 + d'): M becomes M A. A is real, of the operation's own sizes."""
    if any(axis.step > 1 or axis.pad != (0, 0) for axis in op.axes):
        raise XDError(
            "an operation that spaces its inputs or pads them explicitly",
            "inputs at columns 0, 1, 2, ... of M, so that M A is the composition",
            "padding_mode='zeros', or compose the modules one after the other",
        )
    return with_matrices(op, "M", [m @ a for m, a in zip(op.matrix("M").matrices, one_per_dimension(op, A), strict=True)])


@checked
def compose_output(A: KMatrix | Sequence[KMatrix] | Kronecker, op: XDOperation) -> XDOperation:
    """Claim 4: Lin_A after Op, at depth (d1 + d', d2, d3): K becomes A K. A is real, of the operation's own sizes."""
    if any(axis.stride > 1 for axis in op.axes):
        raise XDError(
            f"an operation of stride {tuple(a.stride for a in op.axes)}",
            "stride 1, so that outputs are consecutive rows of K",
            "the same operation at stride 1, or compose the modules one after the other",
        )
    return with_matrices(op, "K", [a @ k for k, a in zip(op.matrix("K").matrices, one_per_dimension(op, A), strict=True)])


@checked
def graph_convolution(in_channels: int, out_channels: int, adjacency: Tensor, dtype: torch.dtype | None = None) -> XDOperation:
    """Claim 5: D^-1/2 A D^-1/2 x w over a fixed graph with self-loops added to A, at depth (1,1,5)."""
    A = checked_graph(adjacency)
    A = A + torch.eye(len(A), dtype=A.dtype)
    scale = A.sum(dim=1).rsqrt()
    return propagation(in_channels, out_channels, scale[:, None] * A * scale, dtype)


@checked
def diffusion_graph_convolution(
    in_channels: int, out_channels: int, adjacency: Tensor, dtype: torch.dtype | None = None
) -> XDOperation:
    """Claim 5: D^-1 A x w over a fixed graph, at depth (1,1,5). A node without edges receives nothing."""
    A = checked_graph(adjacency)
    degree = A.sum(dim=1, keepdim=True)
    return propagation(in_channels, out_channels, torch.where(degree > 0, A / degree.clamp(min=1e-300), 0.0), dtype)


@checked
def fno(in_channels: int, out_channels: int, modes: Sizes, input_size: Sizes, dtype: torch.dtype | None = None) -> XDOperation:
    """Claim 6: the Fourier neural operator with k/2 modes from k real weights, at depth (1,4,1).

    L is the sparse matrix that takes w to w[:k/2] + i w[k/2:] at frequencies 0 ... k/2 - 1. In more dimensions the two halves lie
    along the last one, and the others hold one weight for each mode.
    """
    sizes = spatial_sizes(input_size)
    counts = per_dimension(modes, len(sizes), "modes")
    axes = [Axis(smooth_size(m)) for m in sizes]
    L, kernel = [], []
    for dim, (axis, count) in enumerate(zip(axes, counts, strict=True)):
        halves = 2 if dim == len(axes) - 1 else 1
        check_modes(halves * count, axis.size)
        L.append(mode_matrix(axis.size, count, halves))
        kernel.append(halves * count)
    weight = initial_weight(in_channels, out_channels, kernel, dtype)
    K, M = fourier_pair(axes, weight.dtype)
    return XDOperation(axes, weight, K, in_dtype(L, weight.dtype), M, *plain_b_and_C(axes, out_channels, in_channels, weight.dtype))


@checked
def fno_complex(
    in_channels: int, out_channels: int, modes: Sizes, input_size: Sizes, dtype: torch.dtype | None = None
) -> XDOperation:
    """Remark to claim 6: the Fourier neural operator with k modes from k complex weights, at depth (1,1,1): L = I."""
    sizes = spatial_sizes(input_size)
    counts = per_dimension(modes, len(sizes), "modes")
    axes = [Axis(smooth_size(m)) for m in sizes]
    for axis, count in zip(axes, counts, strict=True):
        check_modes(count, axis.size)
    parts = [initial_weight(in_channels, out_channels, counts, dtype) for _ in range(2)]
    weight = torch.stack(parts, dim=-1)
    K, M = fourier_pair(axes, weight.dtype)
    L = [identity(axis.size, dtype=weight.dtype) for axis in axes]
    columns = [frequency_rows(axis.size, count) for axis, count in zip(axes, counts, strict=True)]
    plain = plain_b_and_C(axes, out_channels, in_channels, weight.dtype)
    return XDOperation(axes, weight, K, L, M, *plain, complex_weight=True, weight_columns=columns)


@checked
def transposed_convolution(
    in_channels: int,
    out_channels: int,
    kernel_size: Sizes,
    input_size: Sizes,
    dilation: Sizes = 1,
    dtype: torch.dtype | None = None,
) -> XDOperation:
    """Claim 7: a transposed convolution whose stride is its dilated kernel size d(k-1)+1, at depth (1,3,3).

    M = F P spaces the inputs by a permutation, as the claim does; it takes inputs of `input_size` itself.
    `XDOperation.from_conv` takes any stride at depth (1,1,1) and smaller inputs too.
    """
    sizes = spatial_sizes(input_size)
    dims = len(sizes)
    kernel, dilations = per_dimension(kernel_size, dims, "kernel_size"), per_dimension(dilation, dims, "dilation")
    axes, taps, M = [], [], []
    for m, k, d in zip(sizes, kernel, dilations, strict=True):
        spacing = d * (k - 1) + 1
        n = choose_size(m * spacing, None, "the spaced inputs")
        axes.append(Axis(n, growth=m * spacing - m))
        taps.append(TapPositions(k, 0, -d))
        M.append(fourier_in(n) @ spread(m, spacing, n))
    weight = initial_weight(out_channels, in_channels, kernel, dtype)  # (c_in, c_out, k...)
    K, L, _ = convolution_matrices(axes, taps, (1, 3, 1), weight.dtype)
    plain = plain_b_and_C(axes, out_channels, in_channels, weight.dtype)
    return XDOperation(axes, weight, K, L, in_dtype(M, weight.dtype), *plain, transposed_weight=True)


@checked
def depthwise_separable(
    in_channels: int,
    out_channels: int,
    kernel_size: Sizes,
    input_size: Sizes,
    padding: Sizes | str = 0,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Remark: a pointwise convolution after a depthwise one, each an XD-operation of depth (1,1,1)."""
    dims = spatial_dims(input_size)
    pad = padding if isinstance(padding, str) else none_negative(padding, dims, "padding")
    kernel = per_dimension(kernel_size, dims, "kernel_size")
    depthwise = _CONV[dims](in_channels, in_channels, kernel, padding=pad, groups=in_channels, bias=False, dtype=dtype)
    first = from_conv(depthwise, input_size, b="trained", C="trained")
    between = [axis.out(m) for axis, m in zip(first.axes, spatial_sizes(input_size), strict=True)]
    pointwise = _CONV[dims](in_channels, out_channels, 1, bias=False, dtype=dtype)
    second = from_conv(pointwise, between, b="trained", C="trained")
    first.source = second.source = None  # evaluated by their architecture, never as the layers
    return nn.Sequential(first, second)
