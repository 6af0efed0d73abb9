"""One layer's row: everything that `xdops bench layers` measures about it."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from xdops.bench.layers import BenchLayer
from xdops.bench.memory import peak_memory
from xdops.engine import kernels
from xdops.engine.machine import measured_rates, rates_restored, set_rates
from xdops.engine.planner import make_plan, possible_plans
from xdops.engine.rates import Rates
from xdops.measuring.profile import time_shares
from xdops.measuring.timing import interleaved
from xdops.operations import XDOperation, from_conv

TimedStep = Callable[[], object]

#: Forms that the cost model puts this far behind are not timed.
HOPELESS = 2

#: A layer whose convolution takes so many seconds is timed a few times only.
LONG, FEWEST = 0.3, 3


def training_step(module: nn.Module, x: Tensor, g: Tensor) -> TimedStep:
    """Forward and backward, as in training: fresh gradients every time."""
    tensors = [x, *module.parameters()]

    def step() -> None:
        for tensor in tensors:
            tensor.grad = None
        module(x).backward(g)

    return step


def inference_step(module: nn.Module, x: Tensor) -> TimedStep:
    @torch.no_grad()
    def step() -> None:
        module(x)

    return step


def operation(conv: nn.Module, layer: BenchLayer, **options: Any) -> XDOperation:
    """The XD-operation of the convolution, with filters of its own, so that gradients do not meet."""
    op = from_conv(conv, layer.size, **{"causal": layer.causal, "depth": layer.depth, "domain": "half"} | options)
    op.weight = nn.Parameter(op.weight.detach().clone())
    return op


def without_kernels(step: TimedStep) -> TimedStep:
    """The same, planned and evaluated as if there were no compiled kernels."""

    def run() -> None:
        with kernels.left_out():
            step()

    return run


def measure_layer(layer: BenchLayer, repetitions: int, memory: bool, tick: Callable[[str], None]) -> dict[str, Any]:
    """Ratios to the convolution: training in half the domain (chosen and by form), in the full one, and both without kernels; with
    depth (3,3,3); frozen; FNO; merged inference; memory."""
    torch.manual_seed(0)
    conv, x = layer.conv(), layer.input()
    auto, full = operation(conv, layer), operation(conv, layer, domain="full")
    chosen = auto.plan_for(x)
    start = time.perf_counter()
    with torch.no_grad():
        y = conv(x)
    if time.perf_counter() - start > LONG:
        repetitions = min(repetitions, FEWEST)
    error = float((auto(x).detach() - y).abs().max() / y.abs().max())
    g = torch.randn_like(y)
    candidates: dict[str, TimedStep] = {"conv": training_step(conv, x, g), "auto": training_step(auto, x, g)}
    asked = auto.workload(x)
    others = [form for form in possible_plans(asked) if form != chosen.form]
    others = [form for form in others if make_plan(asked, form).seconds < HOPELESS * chosen.seconds]
    candidates |= {form: training_step(operation(conv, layer, plan=form), x, g) for form in others}
    candidates["full"] = training_step(full, x, g)
    candidates["no kernels"] = without_kernels(training_step(operation(conv, layer), x, g))
    candidates["full, no kernels"] = without_kernels(training_step(operation(conv, layer, domain="full"), x, g))
    candidates["depth 3"] = training_step(operation(conv, layer, depth=3), x, g)
    candidates["frozen"] = training_step(operation(conv, layer).freeze(), x, g)
    if (fno := layer.fno()) is not None:
        candidates["fno"] = training_step(fno, x, g)
    training = interleaved(candidates, "conv", repetitions, lambda: tick(f"{layer.name}: training"))

    merged = _moved(operation(conv, layer)).merged(layer.size)
    inference = interleaved(
        {"conv": inference_step(conv, x), "merged": inference_step(merged, x)},
        "conv", repetitions, lambda: tick(f"{layer.name}: inference"),
    )  # fmt: skip
    used = {what: peak_memory(layer.name, what) for what in ("conv", "xd")} if memory else {"conv": None, "xd": None}
    forms = {name: training[name].seconds for name in ("auto", *others)}
    return {
        "layer": layer.name,
        "size": list(auto.sizes),
        "plan": chosen.form,
        "plan_text": str(chosen),
        "plan_by_measured_rates": _planned_with(measured_rates(), auto, x),
        "full_plan": full.plan_for(x).form,
        "error": error,
        "profile": time_shares(candidates["auto"]),
        "training": {name: t.to_dict() for name, t in training.items()},
        "inference": {name: t.to_dict() for name, t in inference.items()},
        "auto_over_best": forms["auto"] / min(forms.values()),
        "depth3_over_depth1": training["depth 3"].seconds / training["auto"].seconds,
        "kernels_gain": training["no kernels"].seconds / training["auto"].seconds,
        "memory": used,
        "memory_ratio": used["xd"] / used["conv"] if used["conv"] and used["xd"] else None,
    }


def _planned_with(rates: Rates, op: XDOperation, x: Tensor) -> str:
    """The form that would be chosen by these rates."""
    with rates_restored():
        set_rates(rates)
        return op.plan_for(x).form


def _moved(op: XDOperation) -> XDOperation:
    """An operation whose architecture has left its start, as after a search, so that no layer can stand in for it."""
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(1e-3 * torch.randn_like(p))
    return op
