"""Which form: the cheapest by the cost model, or the one asked for by name.

The model counts multiplications, memory traffic and calls of every form, and divides them by the machine's rates. Plans never
depend on how long an earlier call took, so that runs repeat exactly.
"""

from functools import lru_cache

from xdops.engine import kernels
from xdops.engine.forms import FORMS
from xdops.engine.machine import rates
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.workload import Workload
from xdops.errors import XDError


def check_plan(plan: object) -> None:
    """Refuse what is neither a plan nor the name of one."""
    if not isinstance(plan, Plan) and not (isinstance(plan, str) and (plan == "auto" or plan in FORMS)):
        raise XDError(f"plan {plan!r}", f"'auto' or one of {', '.join(FORMS)}", "plan='auto'")


def make_plan(work: Workload, name: str = "auto") -> Plan:
    """The plan called `name`, or the cheapest."""
    check_plan(name)
    return _make_plan(work, name, rates(), kernels.installed())


@lru_cache(maxsize=4096)
def _make_plan(work: Workload, name: str, with_rates: Rates, with_kernels: bool) -> Plan:
    """The forms ask for themselves whether there are kernels; `with_kernels` is here so that plans are kept for either answer."""
    if name != "auto":
        plan = FORMS[name].plan(work, with_rates)
        if plan is None:
            raise XDError(f"plan {name!r}", f"one of {', '.join(possible_plans(work))} for this operation and input", "plan='auto'")
        return plan
    candidates = [plan for form in FORMS.values() if (plan := form.plan(work, with_rates)) is not None]
    if not candidates:
        raise XDError("a causal operation with complex filters", "real filters", "two operations, one per part")
    return candidates[0] if candidates[0].form == "source" else min(candidates, key=lambda plan: plan.seconds)


def possible_plans(work: Workload) -> list[str]:
    """The names that this work could be planned with."""
    return [name for name, form in FORMS.items() if form.plan(work, rates()) is not None]
