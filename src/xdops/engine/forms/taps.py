"""The taps form: y = sum_j w_j (A_j x) with A_j = Re(K diag(L[:, j]) M), a real matrix per filter tap.

No filters over the grid and, in one dimension, no complex numbers: k products along the signal and one channel mix. Masking
every A_j to lower triangular makes the operation causal, exactly and whatever the architecture becomes; a causal convolution is
unchanged by it.

In N dimensions taps nest: K diag(L e_j) M is a Kronecker product of C_i = K_i diag(L_i[:, j_i]) M_i, complex until the last
one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def tap_matrices(K: Tensor, L: Tensor, M: Tensor) -> Tensor:
    """(2, k, r, m): K diag(L[:, j]) M for every tap j, from planar K (2, r, n), L (2, n, k), M (2, n, m)."""
    real, imaginary = _scaled(K, L)
    return torch.stack((_product(real, M[0]) - _product(imaginary, M[1]), _product(real, M[1]) + _product(imaginary, M[0])))


@dataclass(frozen=True)
class Reach:
    """Which outputs see which inputs in one dimension, and how many rows are done at a time."""

    rows: range
    ahead: int | None  # a causal output t sees inputs up to t + ahead; None: all
    block: int

    def blocks(self, columns: int) -> Iterator[tuple[slice, int]]:
        """Slices of the outputs, and how many inputs the last output of each can see."""
        count = 1 if self.ahead is None else max(1, len(self.rows) // self.block)
        for i in range(count):
            part = slice(len(self.rows) * i // count, len(self.rows) * (i + 1) // count)
            seen = columns if self.ahead is None else max(1, min(columns, self.rows[part.stop - 1] + self.ahead + 1))
            yield part, seen

    def mask_(self, A: Tensor, part: slice) -> Tensor:
        """Zero the future in A (k, rows of the part, seen), in place."""
        if self.ahead is not None:  # the columns that the first row sees need no mask
            columns = range(max(0, min(A.shape[2], self.rows[part.start] + self.ahead + 1)), A.shape[2])
            A[:, :, columns.start :] *= causal_mask(self.rows[part], columns, self.ahead, A)
        return A


class Taps(torch.autograd.Function):
    """One dimension: x (batch, c_in, m), w (c_out, c_in/g, k), planar K (2, r, n), L (2, n, k), M (2, n, m) -> (batch, c_out, r).

    Per block of rows: A = [Re, -Im](K diag L) times the stacked parts of M, masked; z = A x; y = w z. A causal block needs no
    column after its last row, which saves a third of the work on long sequences.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, K: Tensor, L: Tensor, M: Tensor, groups: int, reach: Reach) -> Tensor:
        batch, c_in, m = x.shape
        k = L.shape[2]
        mixing = w.reshape(groups, w.shape[0] // groups, -1)
        y = x.new_empty(batch, w.shape[0], K.shape[1])
        kept = []
        for part, seen in reach.blocks(m):
            r = part.stop - part.start
            A = reach.mask_(made(K, L, M, part, seen), part)
            z = (x[:, :, :seen].reshape(batch * c_in, seen) @ A.view(k * r, seen).t()).view(batch, groups, -1, r)
            y[:, :, part] = (mixing @ z).view(batch, -1, r)
            kept += [A, z]
        ctx.groups, ctx.reach = groups, reach
        ctx.save_for_backward(x, w, K, L, M, *(kept if any(ctx.needs_input_grad) else []))
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w, K, L, M, *kept = ctx.saved_tensors
        need = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: differentiate the plain formula
            inputs = [t for t, wanted in zip((x, w, K, L, M), need, strict=False) if wanted]
            given = iter(torch.autograd.grad(plain_taps(x, w, K, L, M, ctx.groups, ctx.reach), inputs, grads[0], create_graph=True))
            return (*(next(given) if wanted else None for wanted in need[:5]), None, None)
        batch, c_in, m = x.shape
        n, k = L.shape[1:]
        stacked, mixing = M.reshape(2 * n, m), w.reshape(ctx.groups, w.shape[0] // ctx.groups, -1)
        grad_x, grad_w = torch.zeros_like(x), torch.zeros_like(mixing)
        grad_K, grad_L, grad_M = torch.empty_like(K), torch.zeros_like(L), torch.zeros_like(M).view(2 * n, m)
        for index, (part, seen) in enumerate(ctx.reach.blocks(m)):
            A, z = kept[2 * index : 2 * index + 2]
            r = part.stop - part.start
            g = grads[0][:, :, part].reshape(batch, ctx.groups, -1, r)
            grad_w += (g @ z.mT).sum(0)
            grad_z = (mixing.mT @ g).view(batch * c_in, k * r)
            if need[0]:
                grad_x[:, :, :seen] += (grad_z @ A.view(k * r, seen)).view(batch, c_in, seen)
            if any(need[2:5]):
                grad_A = (grad_z.t() @ x[:, :, :seen].reshape(batch * c_in, seen)).view(k, r, seen)
                flat = ctx.reach.mask_(grad_A, part).view(k * r, seen)
                if need[4]:
                    grad_M[:, :seen].addmm_(_signed(K[:, part], L).t(), flat)
                signed = (flat @ stacked[:, :seen].t()).view(k, r, 2, n)
                _unsigned(signed, K[:, part], L, grad_K[:, part], grad_L)
        wanted = (grad_x, grad_w.view_as(w), grad_K, grad_L, grad_M.view_as(M))
        return (*(t if needed else None for t, needed in zip(wanted, need, strict=False)), None, None)


def made(K: Tensor, L: Tensor, M: Tensor, part: slice, seen: int) -> Tensor:
    """(k, rows of the part, seen): the matrices of one block, not masked yet."""
    A = _signed(K[:, part], L) @ M[:, :, :seen].reshape(-1, seen)
    return A.view(L.shape[2], part.stop - part.start, seen)


def plain_taps(x: Tensor, w: Tensor, K: Tensor, L: Tensor, M: Tensor, groups: int, reach: Reach) -> Tensor:
    """The same in differentiable steps."""
    A = tap_matrices(K, L, M)[0]
    if reach.ahead is not None:
        A = A * causal_mask(reach.rows, range(A.shape[2]), reach.ahead, A)
    return apply_real_taps(x, w, A, groups)


def _unsigned(signed: Tensor, K: Tensor, L: Tensor, grad_K: Tensor, grad_L: Tensor) -> None:
    """From the gradient of `_signed`, (k, r, 2, n): K's into grad_K, L's onto grad_L."""
    real, imaginary = signed[:, :, 0], signed[:, :, 1]  # gradients of Re and of -Im of K diag(L[:, j])
    taps = L.mT[:, :, None, :]  # (2, k, 1, n)
    torch.sum((real * taps[0]).addcmul_(imaginary, taps[1], value=-1), dim=0, out=grad_K[0])
    torch.sum((real * taps[1]).addcmul_(imaginary, taps[0]), dim=0, out=grad_K[1]).neg_()
    grad_L[0] += (real * K[0]).addcmul_(imaginary, K[1], value=-1).sum(1).t()
    grad_L[1] -= (real * K[1]).addcmul_(imaginary, K[0]).sum(1).t()


def _signed(K: Tensor, L: Tensor) -> Tensor:
    """(k r, 2 n): real part and negated imaginary part of K diag(L[:, j]), side by side."""
    (_, r, n), k = K.shape, L.shape[2]
    taps = L.mT[:, :, None, :]
    out = K.new_empty(k, r, 2, n)
    torch.mul(K[0], taps[0], out=out[:, :, 0]).addcmul_(K[1], taps[1], value=-1)
    torch.mul(K[0], taps[1], out=out[:, :, 1]).addcmul_(K[1], taps[0]).neg_()
    return out.view(k * r, 2 * n)


def _scaled(K: Tensor, L: Tensor) -> tuple[Tensor, Tensor]:
    """K diag(L[:, j]) as real and imaginary parts (k, r, n)."""
    taps = L.mT[:, :, None, :]  # (2, k, 1, n)
    return K[0] * taps[0] - K[1] * taps[1], K[0] * taps[1] + K[1] * taps[0]


def _product(stack: Tensor, matrix: Tensor) -> Tensor:
    k, r, n = stack.shape
    return (stack.reshape(k * r, n) @ matrix).view(k, r, -1)


def causal_mask(rows: range, columns: range, ahead: int, like: Tensor) -> Tensor:
    """(r, m): 1 where output row t may see input column s, that is s <= t + ahead."""
    t = torch.arange(rows.start, rows.stop, rows.step, device=like.device)
    return (torch.arange(columns.start, columns.stop, device=like.device) <= t[:, None] + ahead).to(like.dtype)


def apply_real_taps(x: Tensor, w: Tensor, A: Tensor, groups: int) -> Tensor:
    """One dimension: x (batch, c_in, m), w (c_out, c_in/g, k), A (k, r, m) -> (batch, c_out, r)."""
    batch, c_in, m = x.shape
    k, r, _ = A.shape
    z = (x.reshape(batch * c_in, m) @ A.reshape(k * r, m).t()).view(batch, groups, c_in // groups * k, r)
    return (w.reshape(groups, w.shape[0] // groups, -1) @ z).view(batch, w.shape[0], r)


def apply_taps(x: Tensor, w: Tensor, matrices: Sequence[Tensor], groups: int) -> Tensor:
    """N dimensions: x (batch, c_in, m...), w (c_out, c_in/g, k...), matrices (2, k_i, r_i, m_i) -> (batch, c_out, r...).

    All dimensions but the last are transformed first, their taps joining the channels; then channels and those taps are mixed,
    for every tap of the last dimension, which is transformed at the end, where only the real part is needed.
    """
    batch, dims = x.shape[0], len(matrices)
    parts = [x.unflatten(1, (groups, -1))]  # real, or real and imaginary: (batch, g, c, m_1..m_N)
    for i, C in enumerate(matrices[:-1]):
        real = [_along(part, C[0], 3 + i) for part in parts]
        imaginary = [_along(part, C[1], 3 + i) for part in parts]
        parts = [real[0], imaginary[0]] if len(parts) == 1 else [real[0] - imaginary[1], real[1] + imaginary[0]]
    last = matrices[-1]
    order = (dims - 1 + 2, 0, 1, *range(2, dims + 1))  # (k_N, c_out, c_in/g, k_1..k_{N-1})
    mixing = w.permute(order).reshape(last.shape[1], groups, w.shape[0] // groups, -1)
    y: Tensor | None = None
    for j in range(last.shape[1]):
        for part, matrix, sign in zip(parts, (last[0, j], last[1, j]), (1, -1), strict=False):
            mixed = mixing[j] @ part.flatten(3)  # (batch, g, c_out/g, points)
            term = sign * (mixed.view(batch, w.shape[0], *part.shape[3:]) @ matrix.t())
            y = term if y is None else y + term
    assert y is not None
    return y


def _along(x: Tensor, C: Tensor, dim: int) -> Tensor:
    """(batch, g, c, ..) times C (k, r, m) along `dim`, the taps joining the channels: (batch, g, c k, ..)."""
    k, r, m = C.shape
    z = x.movedim(dim, -1) @ C.reshape(k * r, m).t()  # (batch, g, c, others, k r)
    z = z.unflatten(-1, (k, r)).movedim(-2, 3).movedim(-1, dim + 1)  # (batch, g, c, k, ..)
    return z.flatten(2, 3)
