"""Where runs are: on a terminal a line for each that is running, and what is left; elsewhere a line for every epoch.

All is read from the runs' folders, so it is the same for processes of this machine and for those of others.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from xdops.storage.lock import is_held
from xdops.workers.jobs import Job

#: What is shown of an epoch.
_SHOWN = ("epoch", "train_loss", "validation_metric", "seconds")


class Board:
    """Shows a batch of jobs while they are made. console: None to show nothing."""

    def __init__(self, console: Console | None, jobs: Sequence[Job]) -> None:
        self._console, self._jobs = console, jobs
        self._told = {job.folder: last_record(job.folder) for job in jobs}
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
        running = [job for job in left if is_held(job.folder)]
        count = len(self._jobs)
        rest = f"{len(running)} running, {len(left) - len(running)} waiting, {count - len(left)} of {count} done"
        if self._live is not None:
            lines = [*(describe(job, last_record(job.folder)) for job in running), rest]
            self._live.update(Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)), refresh=True)
            return
        for job in self._jobs:
            record = last_record(job.folder)
            if record is not None and record != self._told[job.folder]:
                self._told[job.folder] = record
                self._console.print(f"{describe(job, record)}; {rest}", soft_wrap=True)


def describe(job: Job, record: dict[str, Any] | None) -> str:
    if record is None:
        return f"{job.name}: epoch 1/{job.epochs}"
    return (
        f"{job.name}: epoch {record['epoch']}/{job.epochs} done, train loss {record['train_loss']:.4g}, "
        f"validation {record['validation_metric']:.4g}, {record['seconds']:.1f} s"
    )


def last_record(folder: Path) -> dict[str, Any] | None:
    """The last whole line of a run's metrics.jsonl, which may be growing, and carries no seal: it is shown and nothing else."""
    try:
        lines = (folder / "metrics.jsonl").read_text().split("\n")[:-1]
        record = json.loads(lines[-1])
        return record if all(isinstance(record[name], int | float) for name in _SHOWN) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
