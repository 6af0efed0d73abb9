"""Where a training step spends its time: shares by kind of work, from torch's own profiler."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.profiler import ProfilerActivity, profile

#: Kinds of work by the names of torch's operators; everything else, the interpreter included, is "calls and rest".
KINDS = {
    "products": {"aten::mm", "aten::addmm", "aten::addmm_", "aten::matmul"},
    "batched products": {"aten::bmm", "aten::baddbmm", "aten::baddbmm_"},
    "copies": {"aten::copy_", "aten::cat", "aten::clone", "aten::stack"},
    "elementwise": {
        "aten::mul", "aten::mul_", "aten::add", "aten::add_", "aten::sub", "aten::sub_", "aten::addcmul_",
        "aten::neg", "aten::neg_", "aten::sum", "aten::fill_", "aten::zero_",
    },
}  # fmt: skip

#: Compiled kernels, by how their names begin.
KERNELS, OURS = "kernels", "xdops::"

REST = "calls and rest"

#: The profiler's own switch, and the level above all that it prints of its own accord.
LOG_LEVEL, NOTHING = "KINETO_LOG_LEVEL", "6"


@contextmanager
def quiet_profiler() -> Iterator[None]:
    """A profiler that writes no lines about itself to the terminal; it looks at its switch when a process first uses it."""
    before = os.environ.get(LOG_LEVEL)
    os.environ.setdefault(LOG_LEVEL, NOTHING)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LOG_LEVEL]


def time_shares(step: Callable[[], object], steps: int = 3) -> dict[str, float]:
    """The share of each kind of work in the time of the step's operators."""
    step()
    with quiet_profiler(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    spent = dict.fromkeys((KERNELS, *KINDS, REST), 0.0)
    for event in profiler.key_averages():
        spent[_kind(event.key)] += event.self_cpu_time_total
    total = sum(spent.values()) or 1.0
    return {kind: time / total for kind, time in spent.items()}


def _kind(name: str) -> str:
    return KERNELS if name.startswith(OURS) else next((kind for kind, names in KINDS.items() if name in names), REST)
