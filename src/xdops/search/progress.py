"""How a search shows where it is: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from xdops.search.results import EpochRecord


class Progress(Protocol):
    """What a search reports as it goes; all calls come from the first process of the run."""

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None: ...  # epoch: how many are already done

    def step(self, epoch: int, step: int, loss: float) -> None: ...  # epoch from 0; step: how many are done in it

    def epoch(self, record: EpochRecord, best: bool) -> None: ...

    def finish(self) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None: ...

    def step(self, epoch: int, step: int, loss: float) -> None: ...

    def epoch(self, record: EpochRecord, best: bool) -> None: ...

    def finish(self) -> None: ...


class PlainProgress:
    """One line per epoch."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        self._epochs, self._metric, self._left = epochs, metric, TimeLeft(epochs, steps, epoch)
        if epoch:
            self._print(f"continuing after epoch {epoch}/{epochs}")

    def step(self, epoch: int, step: int, loss: float) -> None:
        self._left.reach(epoch, step)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        self._print(f"{describe_epoch(record, self._epochs, self._metric, best)}, {clock(self._left.seconds())} left")

    def finish(self) -> None: ...

    def _print(self, line: str) -> None:
        print(line, file=self._stream or sys.stdout, flush=True)


class RichProgress:
    """A bar with the step's loss and the last metric, and one line per finished epoch above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(markup=False, emoji=False)
        self._bar: Bar | None = None

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        self._epochs, self._steps, self._metric, self._left = epochs, steps, metric, TimeLeft(epochs, steps, epoch)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}  {task.fields[left]}"))
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._task: TaskID = self._bar.add_task("", total=epochs * steps, completed=epoch * steps, loss="", left="")
        self._bar.start()

    def step(self, epoch: int, step: int, loss: float) -> None:
        assert self._bar is not None
        self._left.reach(epoch, step)
        self._bar.update(
            self._task,
            completed=epoch * self._steps + step,
            description=f"epoch {epoch + 1}/{self._epochs}, step {step}/{self._steps}",
            loss=f"loss {loss:.4g}",
            left=f"{clock(self._left.seconds())} left",
        )

    def epoch(self, record: EpochRecord, best: bool) -> None:
        self._console.print(describe_epoch(record, self._epochs, self._metric, best), highlight=False)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def suitable_progress() -> Progress:
    """A bar if somebody watches, lines otherwise."""
    return RichProgress() if sys.stdout.isatty() else PlainProgress()


def describe_epoch(record: EpochRecord, epochs: int, metric: str, best: bool) -> str:
    novelty = f", novelty {record.novelty:.3g}" if record.novelty else ""
    return (
        f"epoch {record.epoch}/{epochs}: train loss {record.train_loss:.4g}, validation loss {record.validation_loss:.4g}, "
        f"{metric} {record.validation_metric:.4g}{' (best)' if best else ''}{novelty}, {record.seconds:.1f} s"
    )


class TimeLeft:
    """Time left, from the pace since this process started."""

    def __init__(self, epochs: int, steps: int, epoch: int) -> None:
        self._total, self._steps = epochs * steps, steps
        self._first: int | None = None
        self._now = epoch * steps
        self._since = time.monotonic()

    def reach(self, epoch: int, step: int) -> None:
        self._now = epoch * self._steps + step
        if self._first is None:
            self._first = self._now - 1

    def seconds(self) -> float:
        done = self._now - (self._now if self._first is None else self._first)
        return (time.monotonic() - self._since) / done * (self._total - self._now) if done else float("nan")


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    if seconds != seconds:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
