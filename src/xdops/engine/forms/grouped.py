"""K and M as products of two or three block-diagonal matrices, blocks of about n^(1/2) or n^(1/3); L is dense."""

from collections.abc import Callable

from torch import Tensor

from xdops.engine.build import chain_layout, chain_stages, group_sizes, groupings
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.spectral import dense, plan_spectrum
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.workload import Workload


def planner(name: str, groups: int) -> Callable[[Workload, Rates], Plan | None]:
    """Of the form with so many groups."""

    def plan(work: Workload, rates: Rates) -> Plan | None:
        if work.causal or any(radices is None or len(radices) < groups for radices in work.radices):
            return None
        cuts = [_balanced(radices or (), groups) for radices in work.radices]
        blocks = ", ".join("x".join(map(str, group_sizes(r or (), cut))) for r, cut in zip(work.radices, cuts, strict=True))
        return plan_spectrum(name, work, cuts, rates, f"K and M as products of block-diagonal matrices, {blocks}")

    return plan


def _balanced(radices: tuple[int, ...], groups: int) -> tuple[int, ...]:
    """The cut with the least sum of block sizes."""
    return min(groupings(radices, groups), key=lambda cut: sum(group_sizes(radices, cut)))


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    matrices = {"K": e.K, "M": e.M}
    layouts: dict[str, list] = {"K": [], "M": []}
    stages: dict[str, list[Tensor]] = {"K": [], "M": []}
    for name in "KM":
        for i, (matrix, cut) in enumerate(zip(matrices[name], plan.grouping, strict=True)):
            assert cut is not None
            layouts[name].append(chain_layout(matrix, cut, e.part(name, i)))
            stages[name] += [stage.to(e.dtype) for stage in chain_stages(matrix, cut, layouts[name][-1])]
    L = dense(e, [("L", i) for i in range(e.dims)], e.dtype)
    passes = Spectrum(e.groups, tuple(layouts["K"]), tuple(layouts["M"]), plan.by_tap)
    return compute(passes, e.input, e.taps, e.b, e.C, *stages["K"], *L, *stages["M"])


BOTH = tuple(Form(name, planner(name, groups), evaluate) for name, groups in (("grouped", 2), ("grouped3", 3)))
