"""Definition 3.1 of the paper, as it stands: Re(K diag(C (L w + b)) M x) in every channel pair, summed over input channels.

Plain complex arithmetic, one line per step. Every faster form is tested against this one.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.errors import XDError
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
    check_input(x, weight.shape[1] * groups, axes)
    rows = output_rows(x.shape[2:], axes)
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
    y_hat = torch.einsum("goip,bgip->bgop", grouped_w, grouped_x).flatten(1, 2).unflatten(-1, K.sizes)
    y = K.apply_grid(y_hat, rows=rows, plan=plan).real
    if bias is not None:
        y = y + bias.to(y.dtype).reshape(-1, *(1 for _ in axes))
    return y.to(x.dtype)


def check_input(x: Tensor, channels: int, axes: Sequence[Axis]) -> None:
    """Refuse a wrong number of dimensions, wrong channels, integers, and anything larger than the operation."""
    check_floating(x.dtype, "an input")
    if x.dim() != len(axes) + 2:
        raise XDError(
            f"an input of shape {tuple(x.shape)}",
            f"{len(axes) + 2} dimensions: (batch, channels, {', '.join(f'at most {a.size}' for a in axes)})",
            "x[None] for a single example, x[:, None] for a single channel",
        )
    if x.shape[1] != channels:
        raise XDError(
            f"an input with {x.shape[1]} channels, shape {tuple(x.shape)}",
            f"{channels} channels",
            "channels come second",
        )
    for dim, (m, axis) in enumerate(zip(x.shape[2:], axes, strict=True)):
        axis.check(m, dim)


def output_rows(lengths: Sequence[int], axes: Sequence[Axis]) -> list[range]:
    """The rows of K that are the outputs, per dimension."""
    return [range(0, a.out(m) * a.stride, a.stride) for m, a in zip(lengths, axes, strict=True)]


def pad(x: Tensor, axes: Sequence[Axis], mode: str) -> Tensor:
    """Explicit padding, where the mode is one that zeros at unused columns cannot give."""
    amounts = [a.padding(m) for m, a in zip(x.shape[2:], axes, strict=True)]
    if not any(sum(p) for p in amounts):
        return x
    flat = [p for low_high in reversed(amounts) for p in low_high]
    return F.pad(x, flat, mode=mode)


def place(x: Tensor, axes: Sequence[Axis], lengths: Sequence[int]) -> Tensor:
    """Padded inputs of original `lengths` at columns 0, step, 2 step, ...; on a wrapping axis padding starts before column 0."""
    for dim, (axis, m) in enumerate(zip(axes, lengths, strict=True), start=2):
        if axis.step > 1:
            spaced = x.new_zeros(*x.shape[: dim + 1], axis.step, *x.shape[dim + 1 :])
            spaced = torch.cat((x.unsqueeze(dim + 1), spaced.narrow(dim + 1, 0, axis.step - 1)), dim=dim + 1)
            x = spaced.flatten(dim, dim + 1).narrow(dim, 0, (x.shape[dim] - 1) * axis.step + 1)
        if axis.wraps and m != axis.size:
            fill = (0, 0) * (x.dim() - 1 - dim) + (0, axis.size - x.shape[dim])
            x = F.pad(x, fill).roll(-axis.wrap_pad[0], dims=dim)
    return x
