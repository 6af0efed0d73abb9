"""The causal form for long sequences: the past of whole blocks goes through the domain, and only the rest is masked.

Outputs are cut into blocks. Inputs that all outputs of a block see need no mask: what they give is a part of an operation that is
not causal, from the first inputs to these rows of K, factor by factor in compiled kernels. The other inputs that the block sees
are about as many as it has outputs. There every tap's matrix is made and masked, as `taps` and `taps-grouped` do for all n: with P
blocks that is a P-th of their work.
"""

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from xdops.engine import costs, kernels
from xdops.engine.build import dense_matrices
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms import grouped_taps, taps
from xdops.engine.forms.form import Form
from xdops.engine.forms.fused import check_kernels, kernel_dtype
from xdops.engine.forms.grouped_taps import DigitReach, GroupedTaps, digit_matrices
from xdops.engine.forms.taps import CAUSAL_BLOCK, Reach, Taps, all_taps
from xdops.engine.fused import FusedLayout
from xdops.engine.geometry import Part
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.workload import Workload

#: How many blocks may be worth their passes through the domain.
BLOCKS = (2, 3, 4)


def plan(work: Workload, rates: Rates) -> Plan | None:
    if not work.causal or work.complex_weight or work.radices[0] is None or not kernels.can_run(work.dtype, work.device):
        return None
    plans = [p for blocks in BLOCKS if blocks <= min(work.inputs[0], work.outputs[0]) and (p := plan_blocks(work, rates, blocks))]
    return min(plans, key=lambda p: p.seconds, default=None)


def plan_blocks(work: Workload, rates: Rates, blocks: int) -> Plan | None:
    """The masked matrices of every block, and a pass through the domain for all but the first."""
    each = dataclasses.replace(work, inputs=(-(-work.inputs[0] // blocks),), outputs=(-(-work.outputs[0] // blocks),))
    made = [p for form in (grouped_taps, taps) if (p := form.plan(each, rates)) is not None]
    own = min(made, key=lambda p: p.seconds, default=None)
    if own is None or (own.grouping and grouped_taps.highest_digit(work, own.grouping[0]) < blocks):
        return None
    flops, seconds, most = costs.fused_transforms(work, rates)
    mix_flops, mix_seconds = costs.mixing(work, rates)
    times = blocks - 1
    why = f"causal: the past of {blocks} blocks goes through the domain, only what is near the diagonal is made and masked"
    return Plan(
        "past",
        own.grouping,
        blocks * own.flops + times * (flops + mix_flops),
        blocks * own.bytes + times * 4 * most,
        blocks * own.seconds + times * (seconds + mix_seconds),
        why,
        blocks=blocks,
    )


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    check_kernels(e, "past")
    rows = e.where.rows[0]
    parts = _by_digits(e, plan) if plan.grouping else _by_rows(e, plan)
    return torch.cat(list(parts), dim=2)[:, :, rows.start : rows.stop : rows.step]


FORM = Form("past", plan, evaluate)


def _by_digits(e: Evaluation, plan: Plan) -> Iterator[Tensor]:
    """All outputs of a block at a time: a block is some values of the high digit."""
    w, left, B, M1, reach = digit_matrices(e, plan)
    x, past, low = e.input, _Past(e), reach.low
    for first, end in _cuts(left.shape[1], plan.blocks):
        whole = max(0, min(M1.shape[2], (first * low + reach.ahead + 1) // low))  # values that all outputs of the block see
        seen = -(-min(x.shape[2], end * low + reach.ahead) // low)
        y = None
        if whole < seen:
            own = DigitReach(low, reach.ahead + (first - whole) * low)
            inputs = x[:, :, whole * low : seen * low]
            y = compute(GroupedTaps(e.groups, own), inputs, w, left[:, first:end], B, M1[:, :, whole:seen])
        yield past.added(y, x[:, :, : whole * low], range(first * low, end * low))


def _by_rows(e: Evaluation, plan: Plan) -> Iterator[Tensor]:
    """The same from dense K and M, whatever their depth."""
    rows, ahead = range(e.where.rows[0][-1] + 1), e.causal
    assert ahead is not None
    dense = dense_matrices([*e.K, *e.L, *e.M], [Part(rows, e.part("K", 0).columns), e.part("L", 0), e.part("M", 0)])
    K, L, M = (t.to(e.dtype) for t in dense)
    w, spectra = all_taps(e, L)
    x, past = e.input, _Past(e)
    for first, end in _cuts(len(rows), plan.blocks):
        whole, seen = (max(0, min(x.shape[2], row + ahead + 1)) for row in (first, end - 1))
        y = None
        if whole < seen:
            own = Reach(rows[first:end], ahead - whole, CAUSAL_BLOCK)
            y = compute(Taps(e.groups, own), x[:, :, whole:seen], w, K[:, first:end], spectra, M[:, :, whole:seen])
        yield past.added(y, x[:, :, :whole], rows[first:end])


def _cuts(count: int, blocks: int) -> list[tuple[int, int]]:
    """From where to where each block reaches, none of them empty."""
    blocks = min(blocks, count)
    return [(count * i // blocks, count * (i + 1) // blocks) for i in range(blocks)]


class _Past:
    """The operation as if it were not causal, from the first inputs to some outputs."""

    def __init__(self, e: Evaluation) -> None:
        self.e, self.dtype = e, kernel_dtype(e)
        self.L = dense_matrices(e.L, [e.part("L", 0)])[0].to(self.dtype)
        self.b, self.C = (None if t is None else t.to(self.dtype) for t in (e.b, e.C))
        self.w = e.filters.to(self.dtype)
        self.K, self.M = ([b.values.to(self.dtype) for b in A[0].butterflies] for A in (e.K, e.M))

    def added(self, y: Tensor | None, x: Tensor, rows: range) -> Tensor:
        """What x, the first inputs, gives to these rows, on top of y."""
        e = self.e
        if x.shape[2] == 0:
            return self._nothing(x).expand(x.shape[0], e.c_out, len(rows)) if y is None else y
        K = FusedLayout.of(e.K[0], Part(range(rows.stop), e.part("K", 0).columns))
        M = FusedLayout.of(e.M[0], Part(e.part("M", 0).rows, e.where.columns[0][: x.shape[2]]))
        passes = Spectrum(e.groups, (K,), (M,), by_tap=False)
        found = compute(passes, x.to(self.dtype), self.w, self.b, self.C, *self.K, self.L, *self.M)[:, :, rows.start :].to(e.dtype)
        return found if y is None else y + found

    def _nothing(self, x: Tensor) -> Tensor:
        """A zero that gives everything a gradient of zeros, as other forms do."""
        every = (t for t in (x, self.w, self.b, self.C, *self.K, self.L, *self.M) if t is not None)
        return torch.stack([t.flatten()[:0].sum().to(self.e.dtype) for t in every]).sum()
