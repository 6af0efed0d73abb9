"""An operation on an input: planned, then evaluated in the form that the plan names."""

import torch
from torch import Tensor

from xdops.engine.description import Description
from xdops.engine.evaluation import Evaluation, Operands
from xdops.engine.forms import FORMS
from xdops.engine.plan import Plan
from xdops.engine.planner import make_plan


def evaluate(description: Description, operands: Operands, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Re(K diag(C (L w + b)) M x), differentiable in everything; `dtype` is that of the arithmetic and of the result."""
    if x.shape[0] == 0:  # a batch of one that nobody looks at, so that everything gets its gradient of zeros
        one = torch.cat((x, x.new_zeros(1, *x.shape[1:])))
        return evaluate(description, operands, one, dtype)[:0]
    with torch.autocast(x.device.type, enabled=False):
        evaluation = Evaluation(description, operands, x, dtype)
        plan = plan_of(evaluation)
        return FORMS[plan.form].evaluate(evaluation, plan)


def plan_of(evaluation: Evaluation, source: bool = False) -> Plan:
    """The plan given, the one asked for by name, or the cheapest."""
    asked = evaluation.description.plan
    return asked if isinstance(asked, Plan) else make_plan(evaluation.workload(source), asked)
