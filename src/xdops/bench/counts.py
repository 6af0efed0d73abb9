"""Operation counts of a layer's training step, from the planner's own formulas: what no implementation of a form gets below."""

from dataclasses import dataclass, replace

from xdops.bench.layers import Layer
from xdops.engine.plan import Problem, make_plan, possible_plans
from xdops.operations import from_conv
from xdops.operations.evaluate import problem

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


@dataclass(frozen=True)
class CausalCounts:
    """Flops of the causal form: making the masked n x n matrices of all taps, applying them to the columns, mixing channels."""

    conv: float
    build: float
    apply: float
    mix: float

    @property
    def ratio(self) -> float:
        return (self.build + self.apply + self.mix) / self.conv


def training_problem(layer: Layer) -> Problem:
    return problem(from_conv(layer.conv(), layer.size, causal=layer.causal), layer.input(), as_source=False)


def conv_flops(p: Problem) -> float:
    """2 batch c_out c_in/g k... r..., three times: output, gradient of the input, gradient of the filters."""
    return make_plan(replace(p, source=True), "source").flops


def counts(layer: Layer, form: str) -> Counts:
    p = training_problem(layer)
    flops = {name: make_plan(p, name).flops for name in possible_plans(p) if name != "definition"}  # the definition counts nothing
    fewest = min(flops, key=lambda name: flops[name])
    unmixed = make_plan(replace(p, groups=NO_MIXING), form).flops
    return Counts(conv_flops(p), make_plan(p, form).flops, unmixed, flops[fewest], fewest)


def causal_counts(layer: Layer, form: str) -> CausalCounts:
    p = training_problem(layer)
    total = make_plan(p, form).flops
    build = make_plan(replace(p, batch=0), form).flops  # what is left without any input
    mix = total - make_plan(replace(p, groups=NO_MIXING), form).flops
    return CausalCounts(conv_flops(p), build, total - build - mix, mix)
