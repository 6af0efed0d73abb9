"""What every form has: a name, its cost, and its evaluation."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from xdops.engine.evaluation import Evaluation
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.workload import Workload


@dataclass(frozen=True)
class Form:
    """One exact way to evaluate an XD-operation.

    plan: what it would cost, None where the form cannot do the work. evaluate: the output without bias, differentiable.
    """

    name: str
    plan: Callable[[Workload, Rates], Plan | None]
    evaluate: Callable[[Evaluation, Plan], Tensor]
