"""The taps form: y = sum_j w_j (A_j x) with A_j = Re(K diag(L[:, j]) M), a real matrix per filter tap.

No filters over the grid and, in one dimension, no complex numbers: k products along the signal and one channel mix. Masking
every A_j to lower triangular makes the operation causal, exactly and whatever the architecture becomes; a causal convolution is
unchanged by it.

In N dimensions taps nest: K diag(L e_j) M is a Kronecker product of C_i = K_i diag(L_i[:, j_i]) M_i, complex until the last
one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def tap_matrices(K: Tensor, L: Tensor, M: Tensor) -> Tensor:
    """(2, k, r, m): K diag(L[:, j]) M for every tap j, from planar K (2, r, n), L (2, n, k), M (2, n, m)."""
    real, imaginary = _scaled(K, L)
    return torch.stack((_product(real, M[0]) - _product(imaginary, M[1]), _product(real, M[1]) + _product(imaginary, M[0])))


def real_tap_matrices(K: Tensor, L: Tensor, M: Tensor) -> Tensor:
    """(k, r, m): their real parts alone, at half the cost."""
    return RealTaps.apply(K, L, M)


class RealTaps(torch.autograd.Function):
    """Re(K diag(L[:, j]) M) as one product of [Re, -Im](K diag L) with the stacked parts of M, and its gradients as two more."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, L: Tensor, M: Tensor) -> Tensor:
        ctx.save_for_backward(K, L, M)
        (_, r, n), (_, _, k), m = K.shape, L.shape, M.shape[2]
        return (_signed(K, L) @ M.reshape(2 * n, m)).view(k, r, m)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        K, L, M = ctx.saved_tensors
        (_, r, n), (_, _, k), m = K.shape, L.shape, M.shape[2]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: differentiate the plain formula
            return torch.autograd.grad(tap_matrices(K, L, M)[0], (K, L, M), grads[0], create_graph=True)
        g = grads[0].reshape(k * r, m)
        need_K, need_L, need_M = ctx.needs_input_grad
        grad_M = (_signed(K, L).t() @ g).view(2, n, m) if need_M else None
        if not (need_K or need_L):
            return None, None, grad_M
        signed = (g @ M.reshape(2 * n, m).t()).view(k, r, 2, n)
        real, imaginary = signed[:, :, 0], signed[:, :, 1]  # gradients of Re and of -Im of K diag(L[:, j])
        taps = L.mT[:, :, None, :]  # (2, k, 1, n)
        grad_K = grad_L = None
        if need_K:
            grad_K = torch.stack(((real * taps[0]).addcmul_(imaginary, taps[1], value=-1).sum(0),
                                  (real * taps[1]).addcmul_(imaginary, taps[0]).sum(0).neg_()))  # fmt: skip
        if need_L:
            grad_L = torch.stack(((real * K[0]).addcmul_(imaginary, K[1], value=-1).sum(1),
                                  (real * K[1]).addcmul_(imaginary, K[0]).sum(1).neg_())).mT  # fmt: skip
        return grad_K, grad_L, grad_M


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


def causal_mask(rows: range, columns: int, ahead: int, like: Tensor) -> Tensor:
    """(r, m): 1 where output row t may see input column s, that is s <= t + ahead."""
    t = torch.arange(rows.start, rows.stop, rows.step, device=like.device)
    return (torch.arange(columns, device=like.device) <= t[:, None] + ahead).to(like.dtype)


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
