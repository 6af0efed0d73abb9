"""The ratio to the convolution along one line at a time: against the size of the grid, and against the size of the kernel."""

from typing import Any

import torch

from xdops.bench.layers import Layer
from xdops.bench.run import operation, training_step
from xdops.measuring.timing import interleaved

#: Batch everywhere, and channels by number of dimensions: those of the Burgers and Darcy flow layers.
BATCH, CHANNELS = 20, {1: 64, 2: 32}

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
SIZES_KERNEL = 17
KERNELS_1D, KERNELS_1D_SIZE = (1, 3, 5, 9, 13, 17, 25, 33), 256
KERNELS_2D, KERNELS_2D_SIZE = (3, 5, 7, 9, 13), 64


def _circular(dims: int, n: int, kernel: int) -> Layer:
    c = CHANNELS[dims]
    return Layer(f"{dims}d n={n} k={kernel}", BATCH, (c, c), (n,) * dims, kernel, kernel // 2, "circular")


def lines() -> dict[str, list[Layer]]:
    """The layers along every line."""
    return {
        "size": [_circular(1, n, SIZES_KERNEL) for n in SIZES],
        "kernel 1d": [_circular(1, KERNELS_1D_SIZE, k) for k in KERNELS_1D],
        "kernel 2d": [_circular(2, KERNELS_2D_SIZE, k) for k in KERNELS_2D],
    }


def measure_point(layer: Layer, repetitions: int) -> dict[str, Any]:
    """A training step of the XD-operation with the plan chosen for it, against the convolution's."""
    torch.manual_seed(0)
    conv, x = layer.conv(), layer.input()
    op = operation(conv, layer)
    plan = op.plan_for(x)
    with torch.no_grad():
        g = torch.randn_like(conv(x))
    timings = interleaved({"conv": training_step(conv, x, g), "auto": training_step(op, x, g)}, "conv", repetitions)
    return {
        "n": layer.size[0],
        "kernel": layer.kernel,
        "dims": len(layer.size),
        "batch": layer.batch,
        "channels": layer.channels[0],
        "plan": plan.form,
        "plan_text": str(plan),
        "conv": timings["conv"].to_dict(),
        "auto": timings["auto"].to_dict(),
    }
