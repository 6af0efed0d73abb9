"""Where an average pool's windows stand in one dimension, and how many entries each of them counts, as torch has it."""

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.operations.axes import Axis, Taps, conv_axis


def pool_axis(m: int, k: int, stride: int, dilation: int, pad: int, ceil_mode: bool) -> tuple[Axis, Taps]:
    """The convolution's own axis; `ceil_mode` keeps a last window that starts inside but ends outside."""
    window = dilation * (k - 1) + 1
    if 2 * pad > window:
        raise XDError(f"padding {pad} for pooling windows of {window}", "at most half a window", f"padding={window // 2}")
    axis, taps = conv_axis(m, k, stride, dilation, (pad, pad + (stride - 1 if ceil_mode else 0)), "zeros", None, wrap=False)
    starts_outside = (axis.out(m) - 1) * stride >= m + pad
    if ceil_mode and starts_outside:
        axis = Axis(axis.size, stride=stride, growth=axis.growth - stride)
    return axis, taps


def row_scale(axis: Axis, m: int, k: int, dilation: int, pad: int, count_include_pad: bool) -> Tensor:
    """k / (number of entries that count) at every row of K that is an output, 1 elsewhere."""
    low, high = (-pad, m + pad) if count_include_pad else (0, m)
    rows = torch.arange(axis.out(m)) * axis.stride
    entries = rows[:, None] - pad + torch.arange(k) * dilation
    counted = ((entries >= low) & (entries < high)).sum(dim=1)
    scale = torch.ones(axis.size, dtype=torch.float64)
    scale[rows] = k / counted.clamp(min=1).to(torch.float64)
    return scale
