"""The spectral form: K, L and M of every dimension merged into dense matrices."""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.engine import costs
from xdops.engine.build import dense_matrices, some_columns
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.workload import Workload


def plan_spectrum(name: str, work: Workload, grouping: costs.Grouping, rates: Rates, why: str) -> Plan:
    """The plan of a form that goes through the domain by products of matrices."""
    flops, seconds, most = costs.transforms(work, grouping, rates)
    return with_mixing(name, work, flops, seconds + costs.building(work, grouping, rates), most, tuple(grouping), rates, why)


def with_mixing(
    name: str,
    work: Workload,
    flops: float,
    seconds: float,
    most: float,
    grouping: tuple[tuple[int, ...] | None, ...],
    rates: Rates,
    why: str,
) -> Plan:
    """The plan of a form that goes through the domain at this cost, with the cheaper way to mix channels."""
    formed, by_tap = costs.mixing(work, rates), costs.mixing_by_tap(work, rates)
    mixing = formed if by_tap is None or formed[1] <= by_tap[1] else by_tap
    if mixing is by_tap:
        why += "; channels mix tap by tap: filters over the grid are many for the batch"
    return Plan(name, grouping, flops + mixing[0], 4 * most, seconds + mixing[1], why, mixing is by_tap)


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.causal:
        return None
    why = "a dense matrix per dimension: few points, or many taps for the price"
    return plan_spectrum("spectral", work, [None] * len(work.sizes), rates, why)


def dense(e: Evaluation, names: Sequence[tuple[str, int]], dtype: torch.dtype) -> list[Tensor]:
    """K, L or M of a dimension each, as far as it is in use: planar and dense."""
    placed = bool(e.operands.columns)
    together = [key for key in names if not (placed and key[0] == "L")]
    matrices = {"K": e.K, "L": e.L, "M": e.M}
    built = dense_matrices([matrices[name][i] for name, i in together], [e.part(name, i) for name, i in together])
    found = dict(zip(together, built, strict=True))
    for name, i in names:
        if (name, i) not in found:
            found[name, i] = some_columns(matrices[name][i], e.operands.columns[i])
    return [found[key].to(dtype) for key in names]


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    matrices = dense(e, [(name, i) for name in "KLM" for i in range(e.dims)], e.dtype)
    whole = (None,) * e.dims
    return compute(Spectrum(e.groups, whole, whole, plan.by_tap), e.input, e.taps, e.b, e.C, *matrices)


FORM = Form("spectral", plan, evaluate)
