"""Named operations that are the same at every position, as shift-invariant XD-operations with windows of `span` points.

They hold convolutions of any dilation whose taps lie within the window, average pools and skips: whatever a filter of `span` points
is. They hold no permutation but a shift, no Fourier layer and no graph convolution: for these an operation must know where it is.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from xdops.matrices import zero
from xdops.matrices.pairs import to_pairs
from xdops.operations.shift_invariant import ShiftInvariantOperation
from xdops.operations.shift_start import shift_invariant_from_conv

_CONV: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def shift_invariant_convolution(
    in_channels: int, out_channels: int, kernel_size: Sequence[int], span: int, causal: bool = False, **options: Any
) -> ShiftInvariantOperation:
    """A convolution with torch's own options, e.g. dilation and padding; (1, 3, 1) with dilation, else (1, 1, 1)."""
    conv = _CONV[len(kernel_size)](in_channels, out_channels, tuple(kernel_size), bias=False, **options)
    return shift_invariant_from_conv(conv, span, causal=causal)


def shift_invariant_average_pool(
    channels: int, kernel_size: Sequence[int], span: int, stride: int = 1, padding: int = 0
) -> ShiftInvariantOperation:
    """The mean over a window, padding included: b is its transform, C the identity, and L is zero, so that weights do nothing."""
    dims = len(kernel_size)
    conv = _CONV[dims](channels, channels, tuple(kernel_size), stride=stride, padding=padding, bias=False)
    pool = shift_invariant_from_conv(conv, span, b="trained", C="trained")
    grid = torch.ones((), dtype=torch.complex128)
    for L, k in zip(pool.matrix("L").matrices, kernel_size, strict=True):
        grid = grid[..., None] * L.to(torch.float64).to_dense(columns=k).mean(dim=1)
    return ShiftInvariantOperation(
        pool.windows,
        pool.weight,
        pool.matrix("K").matrices,
        [zero(m.n, dtype=pool.weight.dtype) for m in pool.matrix("L").matrices],
        pool.matrix("M").matrices,
        b=to_pairs(grid).to(pool.weight.dtype),
        C=to_pairs(torch.eye(channels, dtype=torch.float64)).to(pool.weight.dtype),
    )


def shift_invariant_skip(channels: int, dims: int, span: int) -> ShiftInvariantOperation:
    """The identity: the mean over a single point."""
    return shift_invariant_average_pool(channels, (1,) * dims, span)
