"""What a table would take before it is run: runs, epochs, steps, operations, and hours from a few measured steps."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from xdops.errors import XDError
from xdops.operations import XDOperation
from xdops.reproduce.table import Prepared, Row, SearchRow, Sketch, TunedRow
from xdops.search.batches import Step, step_count
from xdops.search.distributed import make_fabric
from xdops.search.loop import Loop
from xdops.search.seeds import reproducible

#: Steps of so many examples are measured, after a first one, which moves the operations off the convolutions that they start as.
#: What more examples add tells what a whole batch takes: matrices are made once for all of its examples.
FEW, MORE, MEASURED = 2, 8, 2


@dataclass(frozen=True)
class Planned:
    """One row of a table, over all its seeds. missing: why it could not be measured, if so."""

    label: str
    runs: int
    epochs: int  # of each run
    steps: int = 0  # of all
    flops: float = 0.0  # of all
    hours: float = 0.0  # of all, on this machine
    missing: str = ""

    @classmethod
    def sum(cls, label: str, rows: "Sequence[Planned]") -> "Planned":
        """Those that could be measured, in one; what is missing is counted in words."""
        counted = [row for row in rows if not row.missing]
        runs, steps = (sum(getattr(row, name) for row in counted) for name in ("runs", "steps"))
        flops, hours = (sum(getattr(row, name) for row in counted) for name in ("flops", "hours"))
        missing = len(rows) - len(counted)
        less = f"{missing} {'row' if missing == 1 else 'rows'} not counted, whose data are missing" if missing else ""
        return cls(label, runs, 0, steps, flops, hours, less)


def plan_rows(rows: Sequence[Row]) -> Iterator[Planned]:
    """Every row that is searched; rows that are only quoted or measured take no training."""
    for row in rows:
        if isinstance(row, TunedRow):
            first = next(iter(row.candidates.values()))
            yield plan_row(first, len(row.candidates) + len(row.seeds) - 1)
        elif isinstance(row, SearchRow) and row.seeds:
            yield plan_row(row, len(row.seeds))


def plan_row(row: SearchRow, runs: int) -> Planned:
    try:
        sketch = row.sketch() if row.sketch is not None else whole(row.prepare(row.seeds[0]))
    except (XDError, OSError) as error:
        return Planned(row.label, runs, int(row.settings.get("search", {}).get("epochs", 0)), missing=str(error))
    settings = sketch.prepared.settings
    steps = runs * settings.epochs * step_count(sketch.examples, settings)
    seconds, flops = measure(sketch.prepared)
    batches, examples = steps * settings.accumulate, runs * settings.epochs * sketch.examples
    return Planned(row.label, runs, settings.epochs, steps, flops.of(batches, examples), seconds.of(batches, examples) / 3600)


def whole(prepared: Prepared) -> Sketch:
    return Sketch(prepared, len(prepared.problem.train))


@dataclass(frozen=True)
class BatchCost:
    """What a batch takes once, and for each of its examples."""

    once: float
    each: float

    @classmethod
    def between(cls, few: float, more: float) -> "BatchCost":
        """From what FEW and MORE examples take."""
        each = min(few / FEW, max(0.0, (more - few) / (MORE - FEW)))
        return cls(few - FEW * each, each)

    def of(self, batches: int, examples: int) -> float:
        return batches * self.once + examples * self.each


def measure(prepared: Prepared) -> tuple[BatchCost, BatchCost]:
    """Seconds and operations of a step, with the architecture learning."""
    settings = dataclasses.replace(prepared.settings, processes=1, warmup=0, cooldown=0)
    with reproducible():
        loop = Loop(make_fabric(settings), prepared.network, prepared.problem, settings)
        loop.begin_epoch()
        there = len(prepared.problem.train)
        steps = [Step((torch.arange(count) % there,)) for count in (FEW, MORE)]
        loop.step(steps[0], stop=False)
        return BatchCost.between(*(seconds_of(loop, step) for step in steps)), BatchCost.between(
            *(count_flops(loop, step) for step in steps)
        )


def seconds_of(loop: Loop, step: Step) -> float:
    """The least of some, since whatever else the machine does only adds."""
    seconds = []
    for _ in range(MEASURED):
        started = time.perf_counter()
        loop.step(step, stop=False)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def count_flops(loop: Loop, step: Step) -> float:
    """Of one step: those of XD-operations by the planner's formulas, those of all other layers as torch counts them."""
    operations = {name: module for name, module in loop.network.named_modules() if isinstance(module, XDOperation)}
    seen: list[tuple[XDOperation, torch.Tensor]] = []

    def note(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        assert isinstance(module, XDOperation)
        seen.append((module, inputs[0].detach().requires_grad_(inputs[0].requires_grad)))

    hooks = [module.register_forward_pre_hook(note) for module in operations.values()]
    try:
        with FlopCounterMode(display=False) as counter:
            loop.step(step, stop=False)
    finally:
        for hook in hooks:
            hook.remove()
    by_module, root = counter.get_flop_counts(), type(loop.network).__name__
    inside = sum(sum(by_module.get(f"{root}.{name}", {}).values()) for name in operations)
    return counter.get_total_flops() - inside + sum(operation.plan_for(x).flops for operation, x in seen)
