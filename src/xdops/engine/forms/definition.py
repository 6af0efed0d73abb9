"""The formula as it stands, in complex arithmetic, with K, L and M as dense matrices."""

from torch import Tensor

from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.spectral import dense
from xdops.engine.plan import Plan
from xdops.engine.planar import complex_of
from xdops.engine.rates import Rates
from xdops.engine.spectrum import formula
from xdops.engine.workload import Workload


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.causal:
        return None
    return Plan("definition", (), 0.0, 0.0, float("inf"), "the formula as it stands, in complex arithmetic")


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    matrices = [complex_of(A) for A in dense(e, [(name, i) for name in "KLM" for i in range(e.dims)], e.dtype)]
    K, L, M = matrices[: e.dims], matrices[e.dims : 2 * e.dims], matrices[2 * e.dims :]
    return formula(e.input, e.taps, e.b, e.C, K, L, M, e.groups)


FORM = Form("definition", plan, evaluate)
