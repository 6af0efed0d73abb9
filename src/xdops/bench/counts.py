"""Operation counts of a layer's training step, from the planner's own formulas: what no implementation of a form gets below."""

from dataclasses import dataclass, replace

from xdops.bench.layers import BenchLayer
from xdops.engine.planner import make_plan, possible_plans
from xdops.engine.workload import Workload
from xdops.operations import from_conv

#: So many channel groups that no two channels mix: what is left of a count are the products with K, L and M.
NO_MIXING = 10**15


@dataclass(frozen=True)
class Counts:
    """Flops of forward and backward with K, L and M learning."""

    conv: float
    plan: float
    matrices: float  # of the plan, without channel mixing and filters
    fewest: float  # of any form
    fewest_form: str

    @property
    def ratio(self) -> float:
        return self.plan / self.conv


def training_workload(layer: BenchLayer) -> Workload:
    return from_conv(layer.conv(), layer.size, layer.depth, causal=layer.causal, domain="half").workload(layer.input())


def conv_flops(work: Workload) -> float:
    """2 batch c_out c_in/g k... r..., three times: output, gradient of the input, gradient of the filters."""
    return make_plan(replace(work, source=True), "source").flops


def counts(layer: BenchLayer, form: str) -> Counts:
    work = training_workload(layer)
    flops = {
        name: make_plan(work, name).flops for name in possible_plans(work) if name != "definition"
    }  # the definition counts nothing
    fewest = min(flops, key=lambda name: flops[name])
    unmixed = make_plan(replace(work, groups=NO_MIXING), form).flops
    return Counts(conv_flops(work), make_plan(work, form).flops, unmixed, flops[fewest], fewest)
