"""Where an average pool's windows stand in one dimension, and how many entries each of them counts, as torch has it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.operations.axes import Axis, TapPositions, conv_axis


@dataclass(frozen=True)
class PoolAxis(Axis):
    """An axis whose K counts, in the rows at the border, how many entries of a window there are for inputs of length `made_for`."""

    made_for: int = 0
    kernel: int = 1
    dilation: int = 1
    pool_pad: int = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    @property
    def longest(self) -> int:
        return self.made_for if self._counts_vary else super().longest

    @property
    def _counts_vary(self) -> bool:
        return self.ceil_mode or not self.count_include_pad

    def check(self, m: int, dim: int) -> None:
        super().check(m, dim)
        if not self._counts_vary:
            return
        fresh, _ = pool_axis(m, self.kernel, self.stride, self.dilation, self.pool_pad, self.ceil_mode, self.count_include_pad)
        if fresh.out(m) != self.out(m) or self.counts(m) != self.counts(self.made_for)[: self.out(m)]:
            raise XDError(
                f"an input of length {m} in spatial dimension {dim} to a pool that counts the entries of its windows",
                f"{self.made_for}, for which they were counted, or a length at which the last windows hold as many",
                "convert the network on an example of that length",
            )

    def counts(self, m: int) -> list[int]:
        """How many entries count in each window, for inputs of length m."""
        low, high = (-self.pool_pad, m + self.pool_pad) if self.count_include_pad else (0, m)
        starts = range(-self.pool_pad, self.out(m) * self.stride - self.pool_pad, self.stride)
        return [sum(low <= start + j * self.dilation < high for j in range(self.kernel)) for start in starts]


def pool_axis(
    m: int, k: int, stride: int, dilation: int, pad: int, ceil_mode: bool, count_include_pad: bool, half: bool = False
) -> tuple[PoolAxis, TapPositions]:
    """The convolution's own axis; `ceil_mode` keeps a last window that starts inside but ends outside."""
    window = dilation * (k - 1) + 1
    if 2 * pad > window:
        raise XDError(f"padding {pad} for pooling windows of {window}", "at most half a window", f"padding={window // 2}")
    pads = (pad, pad + (stride - 1 if ceil_mode else 0))
    axis, taps = conv_axis(m, kernel=k, stride=stride, dilation=dilation, pad=pads, mode="zeros", size=None, wrap=False, half=half)
    starts_outside = (axis.out(m) - 1) * stride >= m + pad
    growth = axis.growth - stride if ceil_mode and starts_outside else axis.growth
    return PoolAxis(
        axis.size,
        stride=stride,
        growth=growth,
        made_for=m,
        kernel=k,
        dilation=dilation,
        pool_pad=pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        before=taps.before,
        after=taps.after,
    ), taps


def row_scale(axis: PoolAxis) -> Tensor:
    """k / (number of entries that count) at every row of K that is an output, 1 elsewhere."""
    counted = torch.tensor(axis.counts(axis.made_for), dtype=torch.float64).clamp(min=1)
    scale = torch.ones(axis.size, dtype=torch.float64)
    scale[: len(counted) * axis.stride : axis.stride] = axis.kernel / counted
    return scale
