"""Where runs are: on a terminal a line for each that is running, and what is left; elsewhere a line for every epoch.

All is read from the runs' folders, or from their URL, so it is the same for processes of this machine and for those of others.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from xdops.errors import XDError
from xdops.search.folder import METRICS
from xdops.storage.lock import is_held
from xdops.storage.mirror import Mirror
from xdops.workers.jobs import Job

#: At a URL, beside a run that a worker is at.
RUNNING = ".running"
#: What is shown of an epoch.
_SHOWN = ("epoch", "train_loss", "validation_metric", "seconds")
#: Looking at a URL takes at most this share of the time.
_SHARE = 0.1

Record = dict[str, Any]
#: Whether somebody is at the run in a folder, and its last epoch.
Look = Callable[[Path], tuple[bool, Record | None]]


def look_here(folder: Path) -> tuple[bool, Record | None]:
    return is_held(folder), last_record(folder)


class LookThere:
    """At the URL that workers elsewhere bring their runs to; a store that does not answer shows what was there before."""

    def __init__(self, mirror: Mirror, now: Callable[[], float] = time.monotonic) -> None:
        self._mirror, self._now, self._next = mirror, now, -float("inf")
        self._facts: dict[str, str] = {}
        self._records: dict[str, Record | None] = {}

    def __call__(self, folder: Path) -> tuple[bool, Record | None]:
        if (started := self._now()) >= self._next:
            with suppress(XDError):
                self._look()
            self._next = self._now() + (self._now() - started) / _SHARE
        mirror = self._mirror.below(folder.relative_to(self._mirror.folder).as_posix())
        return f"{mirror.at}/{RUNNING}" in self._facts, self._records.get(f"{mirror.at}/{METRICS}")

    def _look(self) -> None:
        store = self._mirror.store()
        found = store.find(self._mirror.at)
        for name in (name for name in found if name.endswith(f"/{METRICS}") and found[name] != self._facts.get(name)):
            self._records[name] = last_of((store.read(name) or b"").decode(errors="replace"))
        self._facts = found


class Board:
    """Shows a batch of jobs while they are made. console: None to show nothing."""

    def __init__(self, console: Console | None, jobs: Sequence[Job], look: Look = look_here) -> None:
        self._console, self._jobs, self._look = console, jobs, look
        self._told = {job.folder: None if console is None else look(job.folder)[1] for job in jobs}
        watched = console is not None and console.is_terminal
        self._live = Live(console=console, transient=True, auto_refresh=False) if watched else None

    def __enter__(self) -> "Board":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, left: Sequence[Job]) -> None:
        """left: jobs that are not done yet."""
        if self._console is None:
            return
        seen = {job.folder: self._look(job.folder) for job in self._jobs}
        running = [job for job in left if seen[job.folder][0]]
        count = len(self._jobs)
        rest = f"{len(running)} running, {len(left) - len(running)} waiting, {count - len(left)} of {count} done"
        if self._live is not None:
            lines = [*(describe(job, seen[job.folder][1]) for job in running), rest]
            self._live.update(Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)), refresh=True)
            return
        for job in self._jobs:
            record = seen[job.folder][1]
            if record is not None and record != self._told[job.folder]:
                self._told[job.folder] = record
                self._console.print(f"{describe(job, record)}; {rest}", soft_wrap=True)


def describe(job: Job, record: Record | None) -> str:
    if record is None:
        return f"{job.name}: epoch 1/{job.epochs}"
    return (
        f"{job.name}: epoch {record['epoch']}/{job.epochs} done, train loss {record['train_loss']:.4g}, "
        f"validation {record['validation_metric']:.4g}, {record['seconds']:.1f} s"
    )


def last_record(folder: Path) -> Record | None:
    try:
        return last_of((folder / METRICS).read_text())
    except (OSError, ValueError):
        return None


def last_of(text: str) -> Record | None:
    """The last whole line of a run's metrics, which may be growing, and carry no seal: it is shown and nothing else."""
    try:
        record = json.loads(text.split("\n")[:-1][-1])
        return record if all(isinstance(record[name], int | float) for name in _SHOWN) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
