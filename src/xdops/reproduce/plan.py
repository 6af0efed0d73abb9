"""What a table would take before it is run: runs, epochs, steps, operations, and hours from a few measured steps."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from xdops.convert import arch_parameters
from xdops.errors import XDError, several
from xdops.operations import XDOperation
from xdops.reproduce.table import Prepared, Row, SearchRow, Sketch, TunedRow
from xdops.search.batches import Step, step_count
from xdops.search.distributed import make_fabric
from xdops.search.examples import Examples
from xdops.search.loop import Loop
from xdops.search.seeds import reproducible

#: Steps of one example are timed, after one that moves the operations off the convolutions that they start as, then steps of GROWTH
#: times as many, until they take SHORT seconds or are whole batches. What more examples add tells what a whole batch takes:
#: matrices are made once for all of its examples.
GROWTH, SHORT, MEASURED = 4, 0.3, 2
#: Seconds of a step of one example after which there are no others: a batch is then taken to last as many times longer as it has
#: more operations.
LONG = 1.0

#: Costs of networks that are measured already, by what they depend on; rows that differ in their data alone share theirs.
Known = dict[str, "Costs"]


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
        less = f"{several(missing, 'row')} not counted, whose data are missing" if missing else ""
        return cls(label, runs, 0, steps, flops, hours, less)


def plan_rows(rows: Sequence[Row], known: Known) -> Iterator[Planned]:
    """Every row that is searched; rows that are only quoted or measured take no training."""
    for row in rows:
        if isinstance(row, TunedRow):
            first = next(iter(row.candidates.values()))
            yield plan_row(first, len(row.candidates) + len(row.seeds) - 1, known)
        elif isinstance(row, SearchRow) and row.seeds:
            yield plan_row(row, len(row.seeds), known)


def plan_row(row: SearchRow, runs: int, known: Known) -> Planned:
    try:
        sketch = row.sketch() if row.sketch is not None else whole(row.prepare(row.seeds[0]))
    except (XDError, OSError) as error:
        return Planned(row.label, runs, int(row.settings.get("search", {}).get("epochs", 0)), missing=str(error))
    settings = sketch.prepared.settings
    steps = runs * settings.epochs * step_count(sketch.examples, settings)
    batches, examples = steps * settings.accumulate, runs * settings.epochs * sketch.examples
    alike = likeness(sketch.prepared)
    if alike not in known:
        known[alike] = measure(sketch.prepared)
    seconds, flops = known[alike].seconds.of(batches, examples), known[alike].flops.of(batches, examples)
    return Planned(row.label, runs, settings.epochs, steps, flops, seconds / 3600)


def whole(prepared: Prepared) -> Sketch:
    return Sketch(prepared, len(prepared.problem.train))


@dataclass(frozen=True)
class BatchCost:
    """What a batch takes once, and for each of its examples."""

    once: float
    each: float

    @classmethod
    def between(cls, few: tuple[int, float], more: tuple[int, float]) -> "BatchCost":
        """From what two numbers of examples take; the same number twice: batches of that size alone."""
        (count, cost), (larger, larger_cost) = few, more
        if larger == count:
            return cls(cost, 0.0)
        each = min(cost / count, max(0.0, (larger_cost - cost) / (larger - count)))
        return cls(cost - count * each, each)

    def of(self, batches: int, examples: int) -> float:
        return batches * self.once + examples * self.each


@dataclass(frozen=True)
class Costs:
    """Of a batch in training, with the architecture learning."""

    seconds: BatchCost
    flops: BatchCost


def likeness(prepared: Prepared) -> str:
    """What the costs of a step depend on: the network, the shapes that it meets, and how it learns."""
    settings, problem = prepared.settings, prepared.problem
    batch = problem.train.batch(by_typicality(problem.train)[:1])
    layout = [(name, tuple(getattr(value, "shape", ()))) for name, value in prepared.network.state_dict().items()]
    learning = settings.batch_size, settings.weights.name, settings.architecture.name, settings.precision
    more = problem.augment is None, type(problem.penalty).__name__
    return repr((prepared.network, layout, tuple(batch.x.shape), tuple(batch.y.shape), learning, more))


def by_typicality(examples: Examples) -> Tensor:
    """All of them, those first whose weight (the steps of a sequence) is nearest to the mean."""
    weights = torch.tensor([examples.weight(torch.tensor([i])) for i in range(len(examples))], dtype=torch.float)
    return (weights - weights.mean()).abs().argsort(stable=True)


def measure(prepared: Prepared) -> Costs:
    settings = dataclasses.replace(prepared.settings, processes=1, warmup=0, cooldown=0)
    whole, order = settings.batch_size, by_typicality(prepared.problem.train)

    def step_of(count: int) -> Step:
        return Step((order[torch.arange(count) % len(order)],))

    with reproducible():
        loop = Loop(make_fabric(settings), prepared.network, prepared.problem, settings)
        loop.begin_epoch()
        flops = count_flops(loop, step_of(1), (1, whole))
        if arch_parameters(loop.network):
            loop.step(step_of(1), stop=False)
        first = last = seconds_of(loop, step_of(1))
        count = 1
        while count < whole and (last < SHORT or (count == 1 and last < LONG)):
            count = min(whole, GROWTH * count)
            last = seconds_of(loop, step_of(count))
        if first >= LONG:
            count, last = whole, first * flops[1] / flops[0]
        return Costs(BatchCost.between((1, first), (count, last)), BatchCost.between((1, flops[0]), (whole, flops[1])))


def seconds_of(loop: Loop, step: Step) -> float:
    """The least of some, since whatever else the machine does only adds; of a single one if it takes long."""
    seconds: list[float] = []
    while len(seconds) < MEASURED and (not seconds or seconds[0] < SHORT):
        started = time.perf_counter()
        loop.step(step, stop=False)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def count_flops(loop: Loop, step: Step, counts: Sequence[int]) -> list[float]:
    """Of steps with so many examples, from this one: those of XD-operations by the planner's formulas, those of all other layers as
    torch counts them, in proportion. The step is not a real one: zeros stand for what XD-operations say.
    """
    operations = [module for module in loop.network.modules() if isinstance(module, XDOperation)]
    seen: list[tuple[XDOperation, int, Tensor]] = []  # how many examples of what shape each was given

    def stand_in(operation: XDOperation, x: Tensor) -> Tensor:
        seen.append((operation, len(x), x.detach()[:1].requires_grad_(x.requires_grad)))
        points = (axis.out(side) for axis, side in zip(operation.axes, x.shape[2:], strict=True))
        nothing = 0 * (x.sum() + operation.weight.sum())  # that has gradients, as layers before and after it need them
        return x.new_zeros(len(x), operation.out_channels, *points) + nothing

    try:
        for operation in operations:
            operation.forward = partial(stand_in, operation)  # type: ignore[method-assign]
        with FlopCounterMode(display=False) as counter:
            loop.step(step, stop=False)
    finally:
        for operation in operations:
            del operation.forward
    others = counter.get_total_flops() / step.examples

    def planned(count: int) -> float:
        """An operation may see each example several times, as windows of it do."""
        rows = ((operation, batch * count // step.examples, x) for operation, batch, x in seen)
        return sum(operation.plan_for(x.expand(batch, *x.shape[1:])).flops for operation, batch, x in rows)

    return [count * others + planned(count) for count in counts]
