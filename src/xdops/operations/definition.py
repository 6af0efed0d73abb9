"""Definition 3.1 of the paper, as it stands: Re(K diag(C (L w + b)) M x) in every channel pair, summed over input channels.

Plain complex arithmetic, one line per step. Every faster form is tested against this one.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from xdops.engine.geometry import pad, place
from xdops.errors import XDError, several
from xdops.matrices import Kronecker
from xdops.matrices.pairs import check_floating, to_complex
from xdops.operations.axes import Axis


def xd_operation(
    x: Tensor,
    weight: Tensor,
    K: Kronecker,
    L: Kronecker,
    M: Kronecker,
    axes: Sequence[Axis],
    b: Tensor | None = None,
    C: Tensor | None = None,
    bias: Tensor | None = None,
    groups: int = 1,
    padding_mode: str = "zeros",
    plan: str = "staged",
) -> Tensor:
    """x (batch, c_in, m...), weight (c_out, c_in/groups, k...) real or complex, b (n..., 2), C (c_out, c_in/groups, 2)."""
    check_input(x, weight.shape[1] * groups, axes, padding_mode)
    rows = [axis.rows(m) for axis, m in zip(axes, x.shape[2:], strict=True)]
    placed = place(pad(x, axes, padding_mode), axes, x.shape[2:])
    x_hat = M.apply_grid(placed, plan=plan)  # (batch, c_in, n...)
    w_hat = L.apply_grid(weight, plan=plan)  # (c_out, c_in/groups, n...)
    if b is not None:
        w_hat = w_hat + to_complex(b)
    if C is not None:
        w_hat = w_hat * to_complex(C).reshape(*C.shape[:-1], *(1 for _ in axes))
    dtype = torch.promote_types(x_hat.dtype, w_hat.dtype)
    grouped_x = x_hat.to(dtype).unflatten(1, (groups, -1)).flatten(3)
    grouped_w = w_hat.to(dtype).unflatten(0, (groups, -1)).flatten(3)
    y_hat = torch.einsum("goip,bgip->bgop", grouped_w, grouped_x).flatten(1, 2).unflatten(-1, [A.shape[1] for A in K.matrices])
    y = K.apply_grid(y_hat, rows=rows, plan=plan).real
    if bias is not None:
        y = y + bias.to(y.dtype).reshape(-1, *(1 for _ in axes))
    return y.to(x.dtype)


def check_dense(x: Tensor) -> None:
    """Refuse what is no tensor, or one whose numbers are not all there: sparse, nested, or in a layout of another library."""
    if not isinstance(x, Tensor) or x.is_nested or x.layout is not torch.strided:
        if not isinstance(x, Tensor):
            raise XDError(f"an input of type {type(x).__name__}", "a tensor", "torch.as_tensor(x)")
        dense = "x.to_padded_tensor(0.0)" if x.is_nested else "x.to_dense()"
        raise XDError(f"an input that is {'nested' if x.is_nested else x.layout}", "a dense tensor", dense)


def check_input(x: Tensor, channels: int, axes: Sequence[Axis], padding_mode: str) -> None:
    """Refuse wrong numbers of dimensions or channels, integers, more points than the operation has, or fewer than it pads by."""
    check_dense(x)
    _check(x.shape, x.dtype, channels, axes, padding_mode)


@lru_cache(maxsize=4096)
def check_shape(shape: tuple[int, ...], dtype: torch.dtype, channels: int, axes: tuple[Axis, ...], padding_mode: str) -> None:
    """The same for a shape that is likely to come again: what has passed once is not checked again."""
    _check(shape, dtype, channels, axes, padding_mode)


def check_device(x: Tensor, weight: Tensor) -> None:
    """Refuse an input on another device than the operation, which on the meta device has no values at all."""
    if x.device != weight.device:
        empty = weight.device.type == "meta"
        raise XDError(
            f"an input on {x.device}",
            f"{weight.device}, where the operation is" + (", without values" if empty else ""),
            "model.to_empty(device='cpu'), then load its weights" if empty else f"x.to({str(weight.device)!r})",
        )


def check_dtype(x: Tensor, dtype: torch.dtype) -> None:
    """Refuse complex numbers, and, outside of autocast, inputs of another dtype than the operation's."""
    if dtype.is_complex:
        raise XDError(
            f"an operation whose parameters are {dtype}",
            "real parameters: their complex numbers are stored as pairs",
            "model.to(torch.float32), and what its parameters were before",
        )
    if x.dtype == dtype:
        return
    if x.is_complex() or x.is_meta or not torch.is_autocast_enabled(x.device.type):
        parts = "torch.cat((x.real, x.imag), 1), its parts as channels" if x.is_complex() else f"x.to({dtype})"
        raise XDError(f"an input of dtype {x.dtype}", f"{dtype}, the dtype of the operation", parts)


def _check(shape: Sequence[int], dtype: torch.dtype, channels: int, axes: Sequence[Axis], padding_mode: str) -> None:
    check_floating(dtype, "an input")
    if len(shape) != len(axes) + 2:
        raise XDError(
            f"an input of shape {tuple(shape)}",
            f"{len(axes) + 2} dimensions: (batch, channels, {', '.join('length' for _ in axes)})",
            "x[None] for a single example, x[:, None] for a single channel",
        )
    if shape[1] != channels:
        raise XDError(
            f"an input with {several(shape[1], 'channel')}, shape {tuple(shape)}",
            several(channels, "channel"),
            f"x of shape (batch, {channels}, ...): channels come second",
        )
    for dim, (m, axis) in enumerate(zip(shape[2:], axes, strict=True)):
        axis.check(m, dim)
        check_padding(m, axis.padding(m), padding_mode)


def check_padding(m: int, pad: tuple[int, int], padding_mode: str) -> None:
    """Refuse an input of length m that has too few points to be padded by."""
    least = max(pad) + {"circular": 0, "reflect": 1}.get(padding_mode, -max(pad))
    if least > 0 and m < least:
        raise XDError(
            f"an input of length {m}", f"at least {least}, to be padded by {max(pad)} in mode {padding_mode}", "a longer input"
        )
