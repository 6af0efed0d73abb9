"""The layer that the operation started as, while its architecture is fixed and still the warm start's: see `operations.source`."""

import math

from torch import Tensor

from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.workload import Workload


def plan(work: Workload, rates: Rates) -> Plan | None:
    if not work.source:
        return None
    area = math.prod(work.outputs) * math.prod(work.kernel)
    flops = (3.0 if work.train else 1.0) * 2 * work.batch * work.c_out * work.c_in / work.groups * area
    why = "the architecture is still the warm start's and frozen: the layer itself"
    return Plan("source", (), flops, 0.0, rates.product(flops, 16), why)


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    raise NotImplementedError("the operation calls the layer itself, with nothing to evaluate")


FORM = Form("source", plan, evaluate)
