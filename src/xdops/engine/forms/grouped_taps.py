"""The causal taps form for K and M of depth 1, with every A_j = Re(K diag(L[:, j]) M) made digit by digit.

The n = H D points are pairs of digits, (high, low). A decreasing M mixes the high digit first, at every low one, and then the
low: M = M2 M1. An increasing K goes the other way, K = K2 K1. So in the middle every value p of the high digit is by itself:

    B_j[p] = K1[p] diag(L[p, :, j]) M2[p]                                           D x D, complex
    A_j[(h, l), (h', l')] = Re sum_p K2[l][h, p] B_j[p][l, l'] M1[l'][p, h']

An entry of A_j takes 4 H flops, where a product of dense K and M takes 4 n. Matrices are kept as (j, l, h, columns): one batched
product writes them, and the rows of one h, for all taps, are again a matrix to BLAS.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xdops.engine.forms.taps import apply_real_taps, causal_mask
from xdops.engine.workspace import Lease, scratch

#: Taps are made together while the numbers on their way, 2 n m each, are no more than this: few calls, and all in the cache.
TOGETHER = 1 << 20


@dataclass(frozen=True)
class DigitReach:
    """A causal output t sees inputs up to t + ahead; outputs are taken D at a time, all of one value h of the high digit."""

    low: int  # D
    ahead: int

    def seen(self, h: int, m: int) -> int:
        """How many of m inputs the last output of h can see."""
        return max(0, min(m, (h + 1) * self.low + self.ahead))

    def mask(self, like: Tensor) -> Tensor:
        """(D, D): whether output l of any h sees the input that comes so many after those that all its outputs see."""
        return torch.ones(self.low, self.low, dtype=like.dtype, device=like.device).tril_(-1)

    def mask_(self, A: Tensor, h: int, mask: Tensor) -> None:
        """Zero the future in A (k, D, columns), the rows of h, in place."""
        first = h * self.low + self.ahead + 1  # the first input that output 0 does not see
        begin = max(0, first)
        if begin < A.shape[2]:
            A[:, :, begin:] *= mask[:, begin - first : A.shape[2] - first]


class GroupedTaps(torch.autograd.Function):
    """x (batch, c_in, m), w (c_out, c_in/g, k), left (D, H_out, 2 H), B (2, k, D, H, D), M1 (2, H, H_in, D) -> y.

    y is (batch, c_out, H_out D): of all n = H D outputs, as of the inputs, those of the first values of the high digit. `left` is
    [Re, -Im] of K2, at every low digit; B's indices are (j, l, p, l') and M1's (p, h', l').
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, left: Tensor, B: Tensor, M1: Tensor, groups: int, reach: DigitReach) -> Tensor:
        batch, c_in, m = x.shape
        k, (low, digits, _) = B.shape[1], left.shape
        rows = x.reshape(batch * c_in, m)
        mixing = _for_every_input(w, batch, groups)
        shapes = (k, low, digits, M1.shape[2] * low), (digits, batch * c_in, k * low)
        leased = any(ctx.needs_input_grad) and not torch.compiler.is_compiling()
        ctx.leases = [Lease(shape, x) for shape in shapes] if leased else []
        A, z = [lease.tensor for lease in ctx.leases] or [x.new_empty(shape) for shape in shapes]
        make_causal_taps(left, B, M1, m, reach, A)
        y = x.new_empty(batch, w.shape[0], digits, low)
        for h in range(digits):
            seen = reach.seen(h, m)
            torch.mm(rows[:, :seen], A[:, :, h, :seen].view(k * low, seen).t(), out=z[h])
            y[:, :, h] = torch.bmm(mixing, z[h].view(batch * groups, -1, low)).view(batch, -1, low)
        ctx.groups, ctx.reach = groups, reach
        ctx.save_for_backward(x, w, left, B, M1, *([] if leased else [A, z]))
        return y.flatten(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w, left, B, M1, *kept = ctx.saved_tensors
        need, reach, groups = ctx.needs_input_grad, ctx.reach, ctx.groups
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: differentiate the plain formula
            inputs = [t for t, wanted in zip((x, w, left, B, M1), need, strict=False) if wanted]
            plain = plain_grouped_taps(x, w, left, B, M1, groups, reach)
            given = iter(torch.autograd.grad(plain, inputs, grads[0], create_graph=True))
            return (*(next(given) if wanted else None for wanted in need[:5]), None, None)
        batch, c_in, m = x.shape
        k, (low, digits, _) = B.shape[1], left.shape
        A, z = [lease.tensor for lease in ctx.leases] or kept
        rows = x.reshape(batch * c_in, m)
        mixing = _for_every_input(w, batch, groups)
        grad_x, grad_mixing = torch.zeros_like(rows), x.new_zeros(mixing.shape)
        grad_A = scratch("grad taps", tuple(A.shape), A) if any(need[2:5]) else None
        grad_y, mask = grads[0].unflatten(2, (digits, low)), reach.mask(x)
        for h in range(digits):
            seen = reach.seen(h, m)
            g = grad_y[:, :, h].reshape(batch * groups, -1, low)
            grad_mixing.baddbmm_(g, z[h].view(batch * groups, -1, low).mT)
            grad_z = torch.bmm(mixing.mT, g).view(batch * c_in, k * low)
            if need[0]:
                grad_x[:, :seen].addmm_(grad_z, A[:, :, h, :seen].view(k * low, seen))
            if grad_A is not None:
                grad_A[:, :, h, :seen].view(k * low, seen).addmm_(grad_z.t(), rows[:, :seen], beta=0)
                reach.mask_(grad_A[:, :, h, :seen], h, mask)
                grad_A[:, :, h, seen:].zero_()
        architecture = (None, None, None) if grad_A is None else _tap_gradients(grad_A, left, B, M1)
        grad_w = grad_mixing.view(batch, -1).sum(0).view_as(w)
        wanted = (grad_x.view_as(x), grad_w, *architecture)
        return (*(t if needed else None for t, needed in zip(wanted, need, strict=False)), None, None)


def _for_every_input(w: Tensor, batch: int, groups: int) -> Tensor:
    """(batch groups, c_out/g, c_in/g k): the filters at every input of the batch, without a copy if there is one group."""
    return w.reshape(1, groups, w.shape[0] // groups, -1).expand(batch, -1, -1, -1).flatten(0, 1)


def make_causal_taps(left: Tensor, B: Tensor, M1: Tensor, m: int, reach: DigitReach, A: Tensor) -> None:
    """The masked matrices into A (k, D, H_out, H_in D); columns that no output of an h sees are left as they come."""
    _, digits, inner = left.shape
    for some in _groups_of_taps(B, M1):
        T = _middle(B[:, some], M1).view(-1, inner, A.shape[3])
        torch.bmm(_for_every_tap(left, T), T, out=A[some].view(-1, digits, A.shape[3]))
    mask = reach.mask(A)
    for h in range(digits):
        reach.mask_(A[:, :, h, : reach.seen(h, m)], h, mask)


def _tap_gradients(grad_A: Tensor, left: Tensor, B: Tensor, M1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of left, B and M1, from that of the masked matrices."""
    _, digits, inner = left.shape
    grad_left, grad_B, grad_M1 = torch.zeros_like(left), torch.empty_like(B), torch.zeros_like(M1)
    for some in _groups_of_taps(B, M1):
        T = _middle(B[:, some], M1)
        flat = T.view(-1, inner, grad_A.shape[3])
        g = grad_A[some].view(-1, digits, grad_A.shape[3])
        grad_left += torch.bmm(g, flat.mT).view(-1, *left.shape).sum(0)
        grad_T = torch.bmm(_for_every_tap(left, flat).mT, g, out=scratch("grad middle", tuple(flat.shape), flat))
        _middle_backward(grad_T.view_as(T), B[:, some], M1, grad_B[:, some], grad_M1, product=T)
    return grad_left, grad_B, grad_M1


def _for_every_tap(left: Tensor, T: Tensor) -> Tensor:
    return left.expand(T.shape[0] // left.shape[0], *left.shape).reshape(-1, *left.shape[1:])


def _groups_of_taps(B: Tensor, M1: Tensor) -> Iterator[slice]:
    """Slices of the taps, as many at a time as TOGETHER allows."""
    k, low = B.shape[1], B.shape[2]
    step = max(1, TOGETHER // (low * M1.numel()))
    return (slice(j, min(k, j + step)) for j in range(0, k, step))


def _middle(B: Tensor, M1: Tensor) -> Tensor:
    """(taps, D, 2, H, H_in, D): B_j[p][l, l'] M1[l'][p, h'] with its indices as (j, l, part, p, h', l'), in working memory."""
    _, taps, low, high, _ = B.shape
    T = scratch("middle", (taps, low, 2, high, M1.shape[2], low), B)
    real, imaginary = B[:, :, :, None, :, None]
    return torch.mul(real, M1, out=T).addcmul_(imaginary, _turned(M1))


def _middle_backward(grad: Tensor, B: Tensor, M1: Tensor, grad_B: Tensor, grad_M1: Tensor, product: Tensor) -> None:
    """From the gradient g of `_middle`: B's, g conj(M1), into grad_B; M1's, g conj(B), onto grad_M1. `product` is overwritten."""
    for part, factor in zip(grad_B, (M1, _turned(M1)), strict=True):  # over h', then over the parts: together is much slower
        torch.sum(torch.mul(grad, factor, out=product).sum(4), dim=2, out=part)
    real, imaginary = B[:, :, :, None, :, None]
    grad_M1 += torch.mul(grad, real, out=product).sum((0, 1))
    grad_M1 -= _turned(torch.mul(grad, imaginary, out=product).sum((0, 1)))


def _turned(planar: Tensor) -> Tensor:
    """i times it."""
    return torch.stack((-planar[1], planar[0]))


def plain_grouped_taps(x: Tensor, w: Tensor, left: Tensor, B: Tensor, M1: Tensor, groups: int, reach: DigitReach) -> Tensor:
    """The same in differentiable steps."""
    b = B[:, :, :, :, None]
    T = torch.stack((b[0] * M1[0] - b[1] * M1[1], b[0] * M1[1] + b[1] * M1[0]), dim=2)  # (k, D, 2, H, H', D)
    A = (left @ T.flatten(2, 3).flatten(3)).transpose(1, 2).flatten(1, 2)[:, :, : x.shape[2]]  # rows in the order (h, l)
    return apply_real_taps(x, w, A * causal_mask(range(A.shape[1]), range(A.shape[2]), reach.ahead, A), groups)
