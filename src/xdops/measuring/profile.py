"""Where a training step spends its time: shares by kind of work, from torch's own profiler."""

from collections.abc import Callable

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

REST = "calls and rest"


def time_shares(step: Callable[[], object], steps: int = 3) -> dict[str, float]:
    """The share of each kind of work in the time of the step's operators."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    spent = dict.fromkeys((*KINDS, REST), 0.0)
    for event in profiler.key_averages():
        kind = next((kind for kind, names in KINDS.items() if event.key in names), REST)
        spent[kind] += event.self_cpu_time_total
    total = sum(spent.values()) or 1.0
    return {kind: time / total for kind, time in spent.items()}
