"""All dimensions as one, of as many points as the grid has: the spectral form of the Kronecker products, multiplied out."""

import math
from dataclasses import replace

from torch import Tensor

from xdops.engine import costs
from xdops.engine.build import kronecker
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms import spectral
from xdops.engine.forms.form import Form
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.workload import Workload


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.causal or len(work.sizes) == 1:
        return None
    n, d, m, r, k = (math.prod(sizes) for sizes in (work.sizes, work.domain, work.inputs, work.outputs, work.kernel))
    one = replace(work, sizes=(n,), domain=(d,), inputs=(m,), outputs=(r,), kernel=(k,), radices=(None,))
    joined = spectral.plan(one, rates)
    assert joined is not None
    seconds = joined.seconds - costs.building(one, [None], rates) + costs.building(work, [None] * len(work.sizes), rates)
    written = rates.traffic(8 * d * (m + r + k)) + 30 * len(work.sizes) * rates.call  # multiplied out
    why = "one dense matrix for all dimensions: few points in all, and products with long sides"
    return replace(joined, form="joined", grouping=(), seconds=seconds + (2 if work.train_arch else 1) * written, why=why)


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    built = spectral.dense(e, [(name, i) for name in "KLM" for i in range(e.dims)], e.dtype)
    matrices = [kronecker(built[start : start + e.dims]) for start in range(0, 3 * e.dims, e.dims)]
    b = e.b
    passes = Spectrum(e.groups, (None,), (None,), by_tap=False)
    y = compute(passes, e.input.flatten(2), e.taps.flatten(-e.dims), None if b is None else b.flatten(1), e.C, *matrices)
    return y.unflatten(2, [len(rows) for rows in e.where.rows])


FORM = Form("joined", plan, evaluate)
