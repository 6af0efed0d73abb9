"""Every form's ratio to the convolution against the size of the grid."""

from typing import Any

import torch

from xdops.bench.layers import BenchLayer
from xdops.bench.run import HOPELESS, TimedStep, operation, training_step
from xdops.engine.planner import make_plan, possible_plans
from xdops.measuring.timing import interleaved

#: Those of the Burgers layers.
BATCH, CHANNELS, KERNEL = 20, 64, 17
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


def layer_of(n: int) -> BenchLayer:
    return BenchLayer(f"n = {n}", BATCH, (CHANNELS, CHANNELS), (n,), KERNEL, KERNEL // 2, "circular")


def measure_point(layer: BenchLayer, repetitions: int) -> dict[str, Any]:
    """A training step in every form that has a chance, in half the domain, against the convolution's."""
    torch.manual_seed(0)
    conv, x = layer.conv(), layer.input()
    op = operation(conv, layer)
    chosen, asked = op.plan_for(x), op.workload(x)
    with torch.no_grad():
        g = torch.randn_like(conv(x))
    forms = [form for form in possible_plans(asked) if make_plan(asked, form).seconds < HOPELESS * chosen.seconds]
    steps: dict[str, TimedStep] = {form: training_step(operation(conv, layer, plan=form), x, g) for form in forms}
    timings = interleaved({"conv": training_step(conv, x, g)} | steps, "conv", repetitions)
    return {
        "n": layer.size[0],
        "kernel": layer.kernel,
        "batch": layer.batch,
        "channels": layer.channels[0],
        "plan": chosen.form,
        "training": {name: timing.to_dict() for name, timing in timings.items()},
    }
