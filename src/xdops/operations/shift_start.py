"""Warm starts of shift-invariant operations: which windows, taps and matrices are a convolution's."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from xdops.engine.shift import ShiftWindow
from xdops.errors import XDError
from xdops.matrices import smooth_size
from xdops.matrices.pairs import check_floating
from xdops.operations.architecture import ARCHITECTURE
from xdops.operations.axes import Axis, TapPositions
from xdops.operations.shift_invariant import ShiftInvariantOperation
from xdops.operations.source import Source
from xdops.operations.warmstart import (
    Depth,
    Presence,
    constant_b,
    constant_C,
    convolution_matrices,
    dilated,
    learned,
    resolve_depth,
)


def shift_invariant_from_conv(
    conv: nn.Module,
    span: int,
    depth: Depth = None,
    causal: bool = False,
    b: Presence = "absent",
    C: Presence = "absent",
    trained: Sequence[str] = ARCHITECTURE,
    plan: str = "auto",
) -> ShiftInvariantOperation:
    """The shift-invariant operation equal to `conv`, for inputs of any length, sharing its weight and bias.

    span: H, the points of a window in every dimension; where the convolution itself reaches farther, the next smooth size that
    holds it. depth: (K, L, M), one number for all, or None for the least that holds the layer, (1, 3, 1) with dilation. causal:
    windows end at the convolution's last tap, so that no output ever sees more of the future than it does; otherwise the taps are
    in their middle.
    """
    if not isinstance(conv, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        raise XDError(f"a {type(conv).__name__}", "a Conv1d, Conv2d or Conv3d", "an operation that is not shift-invariant")
    check_floating(conv.weight.dtype, "a weight")
    if isinstance(span, bool) or not isinstance(span, int) or span < 1:
        raise XDError(f"span={span!r}", "a positive number of points", "span=32")
    windows, taps = zip(*(_window(conv, i, span, causal) for i in range(len(conv.kernel_size))), strict=True)
    axes = [Axis(window.size) for window in windows]
    operation = ShiftInvariantOperation(
        windows,
        conv.weight,
        *convolution_matrices(axes, taps, resolve_depth(depth, any(map(dilated, taps))), conv.weight.dtype),
        b=constant_b(axes, b, conv.weight.dtype),
        C=constant_C(conv.out_channels, conv.in_channels // conv.groups, C, conv.weight.dtype),
        bias=conv.bias,
        groups=conv.groups,
        trained=learned(trained, b, C),
        padding_mode=conv.padding_mode,
        source=Source.of(conv),
        plan=plan,
    )
    operation.look_like(conv)
    return operation.to(conv.weight.device)


def _window(conv: Any, i: int, span: int, causal: bool) -> tuple[ShiftWindow, TapPositions]:
    """Window and taps of dimension i: the last tap is the row that is kept."""
    kernel, dilation = conv.kernel_size[i], conv.dilation[i]
    reach = dilation * (kernel - 1) + 1
    size = span if span >= reach else smooth_size(reach)
    before = size - reach if causal else (size - reach) // 2  # points of the window before the first tap
    low, high = _padding(conv, i, reach)
    window = ShiftWindow(size, before + reach - 1, conv.stride[i], (low + before, high + size - reach - before))
    return window, TapPositions(kernel, -dilation * (kernel - 1), dilation)


def _padding(conv: Any, i: int, reach: int) -> tuple[int, int]:
    if conv.padding == "valid":
        return 0, 0
    if conv.padding == "same":
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    return conv.padding[i], conv.padding[i]
