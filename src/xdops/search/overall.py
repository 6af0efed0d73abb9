"""One bar over many runs, with the time left for all of them."""

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from xdops.search.progress import clock, describe_epoch
from xdops.search.results import EpochRecord


class Overall:
    """The epochs of all runs in one bar, and a line above it for every epoch that ends.

    epochs: how many each group of runs, a search space say, will train in all: groups differ in what an epoch takes, runs of one
    group do not. The time left is what the epochs to come will take at the pace of their group; a group that has not begun is
    taken to be as fast as the others. A run that was finished before counts as done without having taken time.
    """

    def __init__(self, epochs: Mapping[str, int], console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now = console, now
        self._left: dict[str, float] = {**epochs}
        self._seconds: dict[str, float] = dict.fromkeys(epochs, 0.0)
        self._trained: dict[str, float] = dict.fromkeys(epochs, 0.0)
        self._reached: dict[str, float] = {}  # epochs by run, since a run may be continued later
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%  {task.fields[left]}"))
        self._bar = Bar(*columns, console=console, transient=True)
        self._task: TaskID = self._bar.add_task("", total=sum(epochs.values()) or 1, left="")

    def __enter__(self) -> "Overall":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def run(self, name: str, group: str, epochs: int) -> "OneOfMany":
        """How one run of so many epochs is shown, whatever part of it was trained before."""
        return OneOfMany(self, name, group, epochs)

    def trained(self, group: str, epochs: float, seconds: float) -> None:
        self._trained[group] += epochs
        self._seconds[group] += seconds

    def reach(self, name: str, group: str, epochs: float) -> float:
        """A run has come so far; how much farther than before."""
        more = max(0.0, epochs - self._reached.get(name, 0.0))
        self._reached[name] = self._reached.get(name, 0.0) + more
        self._left[group] -= more
        self._bar.update(self._task, advance=more)
        return more

    def tell(self, name: str, at: str) -> None:
        self._bar.update(self._task, description=f"{name}, {at}", left=f"{clock(self.seconds_left())} left for all runs")

    def line(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def now(self) -> float:
        return self._now()

    def seconds_left(self) -> float:
        """Not a number before the first step."""
        trained = sum(self._trained.values())
        if not trained:
            return float("nan")
        usual = sum(self._seconds.values()) / trained
        pace = {group: self._seconds[group] / n if n else usual for group, n in self._trained.items()}
        return sum(pace[group] * max(0.0, left) for group, left in self._left.items())


class OneOfMany:
    """The progress of one run, told to the bar over all."""

    def __init__(self, overall: Overall, name: str, group: str, epochs: int) -> None:
        self._overall, self._name, self._group, self._epochs = overall, name, group, epochs

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        self._steps, self._metric, self._since = steps, metric, self._overall.now()
        self._overall.line(self._name)
        self._overall.reach(self._name, self._group, epoch)

    def step(self, epoch: int, step: int, loss: float) -> None:
        now = self._overall.now()
        more = self._overall.reach(self._name, self._group, epoch + step / self._steps)
        self._overall.trained(self._group, more, now - self._since)
        self._since = now
        self._overall.tell(self._name, f"epoch {epoch + 1}/{self._epochs}, loss {loss:.4g}")

    def epoch(self, record: EpochRecord, best: bool) -> None:
        self._overall.line(describe_epoch(record, self._epochs, self._metric, best))

    def finish(self) -> None:
        """Nothing is left to show: the bar stays for the runs to come."""

    def leave(self) -> None:
        """Count what is left of the run as done: it was finished before, or ended early."""
        self._overall.reach(self._name, self._group, self._epochs)
