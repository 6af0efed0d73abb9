"""Where the operations of an edge look: on the grid of the layer they replace, whatever its padding, stride and kernel."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.convert.kinds.kind import Window


@dataclass(frozen=True)
class GridAxis:
    """One dimension. Output t of m inputs is about input t * stride + place; there are (m + growth) // stride + 1 outputs.

    `place` is the middle of the layer's own window, or its end where nothing later may be seen (causal).
    """

    stride: int
    place: int
    growth: int
    ceil: bool = False  # as a pool's ceil_mode: a last window that is cut off counts too
    pad: int = 0  # the layer's padding, by which ceil_mode decides

    def out(self, m: int) -> int:
        if not self.ceil:
            return (m + self.growth) // self.stride + 1
        outputs = -(-(m + self.growth) // self.stride) + 1
        return outputs - ((outputs - 1) * self.stride >= m + self.pad)  # torch: no window that starts in the padding after


def layer_axes(window: Window, causal: bool) -> list[GridAxis]:
    """The grid of a layer's windows."""
    span = [d * (k - 1) for k, d in zip(window.kernel, window.dilation, strict=True)]
    return [
        GridAxis(s, (w if causal else w // 2) - p, both - w - 1, window.ceil_mode, p)
        for s, w, p, both in zip(window.stride, span, window.before, window.padding, strict=True)
    ]


def windows(x: Tensor, axes: tuple[GridAxis, ...], width: int, dilation: int, causal: bool, mode: str) -> Tensor:
    """x cut and padded so that windows of `width` taps, moved by the strides from its very beginning, are those of the outputs.

    mode: a convolution's padding mode, or "lowest" for what a maximum never picks.
    """
    for dim, axis in enumerate(axes, start=2):
        x = pad_dimension(x, dim, *around(x.shape[dim], axis, width, dilation, causal), mode)
    return x


def around(m: int, axis: GridAxis, width: int, dilation: int, causal: bool) -> tuple[int, int]:
    """What the windows of the outputs need before and after m inputs; less than nothing is cut."""
    reach = dilation * (width - 1)
    before = (reach if causal else reach // 2) - axis.place
    return before, (axis.out(m) - 1) * axis.stride + reach + 1 - before - m


def own_padding(x: Tensor, axes: tuple[GridAxis, ...], width: int, dilation: int, causal: bool) -> tuple[int, ...] | None:
    """The padding with which torch's own convolutions and pools see the same windows, without a padded copy; None if none is."""
    found = []
    for m, axis in zip(x.shape[2:], axes, strict=True):
        before, after = around(m, axis, width, dilation, causal)
        if before < 0 or not 0 <= before - after < axis.stride:
            return None
        found.append(before)
    return tuple(found)


def pad_dimension(x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    """Pad, or cut where the amounts are negative."""
    flat = (0, 0) * (x.dim() - 1 - dim)
    if before > 0 or after > 0:
        amounts = (max(before, 0), max(after, 0))
        if mode in ("zeros", "lowest"):
            x = F.pad(x, (*flat, *amounts), value=0.0 if mode == "zeros" else -torch.inf)
        else:
            x = x.index_select(dim, _positions(x.shape[dim], *amounts, mode).to(x.device))
    return x.narrow(dim, max(-before, 0), x.shape[dim] - max(-before, 0) - max(-after, 0))


def _positions(m: int, before: int, after: int, mode: str) -> Tensor:
    """Which entry stands at each position of a signal that is continued as the padding mode says, however far."""
    p = torch.arange(-before, m + after)
    if mode == "circular":
        return p % m
    if mode == "replicate" or m == 1:
        return p.clamp(0, m - 1)
    p = p % (2 * (m - 1))  # reflect
    return torch.minimum(p, 2 * (m - 1) - p)
