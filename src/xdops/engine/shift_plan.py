"""How to evaluate a shift-invariant operation: every form computes the same, and the cheapest is chosen.

source       the layer itself, while the architecture is fixed at its start
taps         in one dimension: each channel through the k filters of H taps, then channels mixed as the layer does
taps-fft     the same, the filters applied through the FFT
filter       one convolution with filters of H... taps
filter-fft   the same through the FFT
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from xdops.errors import XDError

SHIFT_FORMS = ("taps", "taps-fft", "filter", "filter-fft")

#: An FFT's flop takes about as long as so many of a matrix product, on a CPU.
FFT_FLOP = 6.0
#: A filter on a block of a signal is a matrix product with about so many times its flops, since half of the matrix is zeros.
ALONE_FLOP = 3.0


@dataclass(frozen=True)
class ShiftProblem:
    """Sizes of an evaluation. padded, outputs, strides, sizes (H), kernel: per dimension."""

    padded: tuple[int, ...]
    outputs: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    batch: int
    c_in: int
    c_out: int
    groups: int
    plain: bool  # without b and C
    source: bool  # the layer may stand in


@dataclass(frozen=True)
class ShiftPlan:
    form: str
    flops: float  # of the forward pass, in flops of a matrix product
    why: str

    def __str__(self) -> str:
        return f"{self.form} ({self.flops:.3g} flops): {self.why}"


@lru_cache(maxsize=4096)
def make_shift_plan(problem: ShiftProblem, name: str = "auto") -> ShiftPlan:
    """The plan called `name`, or the cheapest one that is possible."""
    if name == "auto":
        if problem.source:
            return ShiftPlan("source", _direct(problem, problem.kernel), "the architecture is fixed at its start")
        found = [make_shift_plan(problem, form) for form in SHIFT_FORMS if _possible(problem, form)]
        return min(found, key=lambda plan: plan.flops)
    if name not in SHIFT_FORMS or not _possible(problem, name):
        possible = [form for form in SHIFT_FORMS if _possible(problem, form)]
        raise XDError(f"plan {name!r}", f"'auto' or one of {', '.join(possible)}", "plan='auto'")
    return ShiftPlan(name, *_COSTS[name](problem))


def _possible(problem: ShiftProblem, form: str) -> bool:
    return not form.startswith("taps") or (len(problem.sizes) == 1 and problem.plain)


def _direct(p: ShiftProblem, taps: tuple[int, ...]) -> float:
    return 2.0 * p.batch * math.prod(p.outputs) * p.c_out * p.c_in / p.groups * math.prod(taps)


def _transforms(p: ShiftProblem, count: float) -> float:
    points = math.prod(p.padded)
    return FFT_FLOP * count * 2.5 * points * math.log2(max(2, points))


def _taps(p: ShiftProblem) -> tuple[float, str]:
    alone = ALONE_FLOP * 2 * p.batch * p.outputs[0] * p.c_in * p.kernel[0] * p.sizes[0]
    return alone + _direct(p, p.kernel), f"{p.kernel[0]} filters of {p.sizes[0]} taps for each channel, then the layer's own mixing"


def _taps_fft(p: ShiftProblem) -> tuple[float, str]:
    transforms = _transforms(p, p.batch * p.c_in * (1 + p.kernel[0]) + p.kernel[0])
    return transforms + _direct(p, p.kernel), "long filters for each channel through the FFT, then the layer's own mixing"


def _build(p: ShiftProblem) -> float:
    """Making the long filters, dimension by dimension, in complex numbers unless there is but one dimension."""
    flops, left = 0.0, list(p.kernel)
    for i, (taps, size) in enumerate(zip(p.kernel, p.sizes, strict=True)):
        left[i] = size
        flops += (2 if len(p.sizes) == 1 and p.plain else 8) * p.c_out * p.c_in / p.groups * math.prod(left) * taps
    return flops


def _filter(p: ShiftProblem) -> tuple[float, str]:
    return _build(p) + _direct(p, p.sizes), f"one convolution with {'x'.join(map(str, p.sizes))} taps"


def _filter_fft(p: ShiftProblem) -> tuple[float, str]:
    transforms = _transforms(p, p.batch * (p.c_in + p.c_out) + p.c_in * p.c_out / p.groups)
    mixing = 8.0 * p.batch * p.c_in * p.c_out / p.groups * math.prod(p.padded) / 2
    return _build(p) + transforms + mixing, "one convolution with long filters, through the FFT"


_COSTS = {"taps": _taps, "taps-fft": _taps_fft, "filter": _filter, "filter-fft": _filter_fft}
