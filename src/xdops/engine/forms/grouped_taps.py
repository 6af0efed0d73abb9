"""The causal taps form for K and M of depth 1, with every A_j = Re(K diag(L[:, j]) M) made digit by digit.

The n = H D points are pairs of digits, (high, low). A decreasing M mixes the high digit first, at every low one, and then the
low: M = M2 M1. An increasing K goes the other way, K = K2 K1. So in the middle every value p of the high digit is by itself:

    B_j[p] = K1[p] diag(L[p, :, j]) M2[p]                                           D x D, complex
    A_j[(h, l), (h', l')] = Re sum_p K2[l][h, p] B_j[p][l, l'] M1[l'][p, h']

An entry of A_j takes 4 H flops, where a product of dense K and M takes 4 n. Matrices are kept as (j, l, h, columns): one batched
product writes them, and the rows of one h, for all taps, are again a matrix to BLAS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine.build import dense_matrices, group_sizes, groupings, two_stages
from xdops.engine.digit_products import digit_products, digit_products_back
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.taps import all_taps, apply_real_taps, causal_mask
from xdops.engine.passes import Maybe, compute
from xdops.engine.plan import Plan
from xdops.engine.planar import complex_of, multiply, planar
from xdops.engine.rates import Rates
from xdops.engine.workload import Workload
from xdops.engine.workspace import Workspace, workspace

#: Taps are made together while the numbers on their way, 2 n m each, are no more than this: few calls, and all in the cache.
MADE_TOGETHER = 1 << 20


def plan(work: Workload, rates: Rates) -> Plan | None:
    """H values of the high digit, D of the low."""
    radices = work.radices[0]
    shallow = work.depth[0] == work.depth[2] == 1 and work.meets_in_the_middle
    if not work.causal or work.complex_weight or not shallow or radices is None or len(radices) < 2:
        return None
    n, m, r = work.sizes[0], work.inputs[0], work.outputs[0]
    k = (2 if work.has_C else 1) * (work.kernel[0] + (1 if work.has_b else 0))
    passes = 3.0 if work.train else 1.0
    build_passes = passes if work.train_arch else 1.0

    def build(cut: tuple[int, ...]) -> tuple[float, float]:
        """Flops and seconds of making the matrices, with the calls for every value of the high digit."""
        low, high = group_sizes(radices, cut)
        mixed = high * work.domain[0] // n
        middle, entries = 8.0 * k * mixed * low**3, 4.0 * k * mixed * r * m
        seconds = build_passes * (rates.product(middle, low) + rates.product(entries, high) + rates.traffic(4 * k * n * m))
        return build_passes * (middle + entries), seconds + passes * 4 * high * rates.call

    cut = min(groupings(radices, 2), key=lambda cut: build(cut)[1])
    low, high = group_sizes(radices, cut)
    flops, seconds = build(cut)
    apply = k * r * m * (1 + 1 / high) * work.batch * work.c_in  # 2 flops for every entry that is not in the future
    mix = 2.0 * work.batch * (work.c_in / work.groups) * work.c_out * k * r
    flops += passes * (apply + mix)
    seconds += passes * (rates.product(apply, k * low) + rates.product(mix, min(low, work.c_out / work.groups)))
    seconds += passes * (rates.traffic(4 * k * work.batch * work.c_in * r) + 240 * rates.call)
    memory = 4 * (2 * k * r * m + 2 * k * work.batch * work.c_in * r + 3 * n * m)
    why = f"causal: every tap's matrix is made from blocks of {high} and {low}, and masked to the past"
    return Plan("taps-grouped", (cut,), flops, memory, seconds, why)


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    w, left, B, M1, reach = digit_matrices(e, plan)
    rows = e.where.rows[0]
    return compute(GroupedTaps(e.groups, reach), e.input, w, left, B, M1)[:, :, rows.start : rows.stop : rows.step]


FORM = Form("taps-grouped", plan, evaluate)


def highest_digit(work: Workload, cut: tuple[int, ...] | None) -> int:
    """How many values of the high digit the outputs have."""
    assert cut is not None
    assert work.radices[0] is not None
    return -(-work.outputs[0] // group_sizes(work.radices[0], cut)[0])


def digit_matrices(e: Evaluation, plan: Plan) -> "tuple[Tensor, Tensor, Tensor, Tensor, DigitReach]":
    """Filters; [Re, -Im] of K2 at every low digit, (D, H_out, 2 H); B (2, k, D, H, D); M1 (2, H, H_in, D); who sees what."""
    grouping, rows = plan.grouping[0], e.where.rows[0]
    assert grouping is not None
    assert e.causal is not None
    K2, K1 = two_stages(e.K[0].butterflies[0], grouping)
    M1, M2 = two_stages(e.M[0].butterflies[0], grouping)
    low, _, high = K2.shape
    w, spectra = all_taps(e, dense_matrices(e.L, [e.part("L", 0)])[0])
    digits, seen_digits = -(-(rows[-1] + 1) // low), -(-len(e.where.columns[0]) // low)
    scaled = K1[:, None] * complex_of(spectra.mT).unflatten(1, (high, 1, low)).movedim(0, 1)  # (p, k, l, q)
    B = planar((scaled.flatten(1, 2) @ M2).unflatten(1, (-1, low)).permute(1, 2, 0, 3)).to(e.dtype)
    M1 = planar(M1[:, :, :seen_digits].permute(1, 2, 0)).to(e.dtype)
    left = torch.cat((K2[:, :digits].real, -K2[:, :digits].imag), dim=2).to(e.dtype)
    return w.to(e.dtype), left, B, M1, DigitReach(low, e.causal)


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


@dataclass(frozen=True)
class GroupedTaps:
    """x (batch, c_in, m), w (c_out, c_in/g, k), left (D, H_out, 2 H), B (2, k, D, H, D), M1 (2, H, H_in, D) -> y.

    y is (batch, c_out, H_out D): of all n = H D outputs, as of the inputs, those of the first values of the high digit. B's
    indices are (j, l, p, l') and M1's (p, h', l').
    """

    groups: int
    reach: DigitReach

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        x, w, left, B, M1 = (t for t in tensors if t is not None)
        space, (batch, c_in, m) = workspace(), x.shape
        k, (low, digits, _) = B.shape[1], left.shape
        rows = x.reshape(batch * c_in, m)
        mixing = _for_every_input(w, batch, self.groups)
        A = space.empty((k, low, digits, M1.shape[2] * low), x)
        z = space.empty((digits, batch * c_in, k * low), x)
        make_causal_taps(left, B, M1, m, self.reach, A, space)
        y = x.new_empty(batch, w.shape[0], digits, low)
        for h in range(digits):
            seen = self.reach.seen(h, m)
            torch.mm(rows[:, :seen], A[:, :, h, :seen].view(k * low, seen).t(), out=z[h])
            y[:, :, h] = torch.bmm(mixing, z[h].view(batch * self.groups, -1, low)).view(batch, -1, low)
        return y.flatten(2), [A, z] if keep else []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        x, w, left, B, M1 = (t for t in tensors if t is not None)
        A, z = kept
        space, reach, groups = workspace(), self.reach, self.groups
        batch, c_in, m = x.shape
        k, (low, digits, _) = B.shape[1], left.shape
        rows = x.reshape(batch * c_in, m)
        mixing = _for_every_input(w, batch, groups)
        grad_x, grad_mixing = torch.zeros_like(rows), x.new_zeros(mixing.shape)
        grad_A = space.empty(tuple(A.shape), A) if any(needs[2:5]) else None
        grad_y, mask = g.unflatten(2, (digits, low)), reach.mask(x)
        for h in range(digits):
            seen = reach.seen(h, m)
            grad_h = grad_y[:, :, h].reshape(batch * groups, -1, low)
            grad_mixing.baddbmm_(grad_h, z[h].view(batch * groups, -1, low).mT)
            grad_z = torch.bmm(mixing.mT, grad_h).view(batch * c_in, k * low)
            if needs[0]:
                grad_x[:, :seen].addmm_(grad_z, A[:, :, h, :seen].view(k * low, seen))
            if grad_A is not None:
                grad_A[:, :, h, :seen].view(k * low, seen).addmm_(grad_z.t(), rows[:, :seen], beta=0)
                reach.mask_(grad_A[:, :, h, :seen], h, mask)
                grad_A[:, :, h, seen:].zero_()
        architecture = (None, None, None) if grad_A is None else _tap_gradients(grad_A, left, B, M1, space)
        grads = (grad_x.view_as(x), grad_mixing.view(batch, -1).sum(0).view_as(w), *architecture)
        return [grad if need else None for grad, need in zip(grads, needs, strict=True)]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        x, w, left, B, M1 = (t for t in tensors if t is not None)
        T = multiply(B[:, :, :, :, None], M1).movedim(0, 2)  # (k, D, 2, H, H', D)
        A = (left @ T.flatten(2, 3).flatten(3)).transpose(1, 2).flatten(1, 2)[:, :, : x.shape[2]]  # rows in the order (h, l)
        return apply_real_taps(x, w, A * causal_mask(range(A.shape[1]), range(A.shape[2]), self.reach.ahead, A), self.groups)


def _for_every_input(w: Tensor, batch: int, groups: int) -> Tensor:
    """(batch groups, c_out/g, c_in/g k): the filters at every input of the batch, without a copy if there is one group."""
    return w.reshape(1, groups, w.shape[0] // groups, -1).expand(batch, -1, -1, -1).flatten(0, 1)


def make_causal_taps(left: Tensor, B: Tensor, M1: Tensor, m: int, reach: DigitReach, A: Tensor, space: Workspace) -> None:
    """The masked matrices into A (k, D, H_out, H_in D); columns that no output of an h sees are left as they come."""
    B, M1 = B.contiguous(), M1.contiguous()
    _, digits, inner = left.shape
    for some in _groups_of_taps(B, M1):
        T = digit_products(B[:, some], M1, space).view(-1, inner, A.shape[3])
        torch.bmm(_for_every_tap(left, T), T, out=A[some].view(-1, digits, A.shape[3]))
    mask = reach.mask(A)
    for h in range(digits):
        reach.mask_(A[:, :, h, : reach.seen(h, m)], h, mask)


def _tap_gradients(grad_A: Tensor, left: Tensor, B: Tensor, M1: Tensor, space: Workspace) -> tuple[Tensor, Tensor, Tensor]:
    """Of left, B and M1, from that of the masked matrices."""
    B, M1 = B.contiguous(), M1.contiguous()
    _, digits, inner = left.shape
    grad_left, grad_B, grad_M1 = torch.zeros_like(left), torch.empty_like(B), torch.zeros_like(M1)
    for some in _groups_of_taps(B, M1):
        T = digit_products(B[:, some], M1, space)
        flat = T.view(-1, inner, grad_A.shape[3])
        g = grad_A[some].view(-1, digits, grad_A.shape[3])
        grad_left += torch.bmm(g, flat.mT).view(-1, *left.shape).sum(0)
        grad_T = torch.bmm(_for_every_tap(left, flat).mT, g, out=space.empty(tuple(flat.shape), flat))
        digit_products_back(grad_T.view_as(T), B[:, some], M1, grad_B[:, some], grad_M1, space)
    return grad_left, grad_B, grad_M1


def _for_every_tap(left: Tensor, T: Tensor) -> Tensor:
    return left.expand(T.shape[0] // left.shape[0], *left.shape).reshape(-1, *left.shape[1:])


def _groups_of_taps(B: Tensor, M1: Tensor) -> Iterator[slice]:
    """Slices of the taps, as many at a time as MADE_TOGETHER allows."""
    k, low = B.shape[1], B.shape[2]
    step = max(1, MADE_TOGETHER // (low * M1.numel()))
    return (slice(j, min(k, j + step)) for j in range(0, k, step))
