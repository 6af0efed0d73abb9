"""Jobs whose runs are kept at a URL: each worker fetches its run's folder, and brings it back after every epoch.

A worker or a machine that dies costs at most the epoch that it was at: whoever makes the run next goes on from the URL.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdops.search import EpochRecord, Progress
from xdops.search.progress import suitable_progress
from xdops.storage.files import this_host
from xdops.storage.lock import lock
from xdops.storage.mirror import Mirror
from xdops.storage.place import Place
from xdops.workers.board import RUNNING
from xdops.workers.jobs import Call, Job, Racers, Workers


def mirrored(workers: Workers, place: Place) -> Workers:
    """The same workers for runs at this place; as they are if it is a folder."""
    if place.mirror is None:
        return workers
    return _MirroredRacers(workers, place.mirror) if isinstance(workers, Racers) else _Mirrored(workers, place.mirror)


@dataclass(frozen=True)
class _Mirrored:
    workers: Any
    mirror: Mirror

    def run(self, shared: Any, jobs: Sequence[Job]) -> list[Any]:
        self.mirror.push()  # what this process has written, settings above all: runs without them are nobody's
        results = self.workers.run(shared, [self._job(job) for job in jobs])
        self.mirror.pull()  # what others have
        return results

    def _job(self, job: Job) -> Job:
        at = job.folder.relative_to(self.mirror.folder).as_posix()
        return dataclasses.replace(job, call=_in_copy, arguments=(self.mirror, at, job.call, job.arguments))


class _MirroredRacers(_Mirrored):
    def race(self, shared: Any, jobs: Sequence[Job], first: int, eta: int, higher: bool, scratch: Path) -> list[int]:
        self.mirror.push()
        return self.workers.race(shared, [self._job(job) for job in jobs], first, eta, higher, scratch)


def _in_copy(shared: Any, mirror: Mirror, at: str, call: Call, arguments: tuple[Any, ...], progress: Progress | None) -> Any:
    """In the worker."""
    run = mirror.below(at)
    with lock(run.folder), marked(run):
        run.pull()
        pushing = Pushing(run, above(mirror, at), progress)
        try:
            return call(shared, *arguments, pushing)
        finally:
            pushing.push()


@contextmanager
def marked(run: Mirror) -> Iterator[None]:
    """While a worker is at the run, a file there says so to whoever looks from elsewhere."""
    run.store().write(f"{run.at}/{RUNNING}", this_host().encode())
    try:
        yield
    finally:
        run.store().remove(f"{run.at}/{RUNNING}")


def above(mirror: Mirror, at: str) -> list[Mirror]:
    """The folders between the whole and one of its runs, which may hold what the run is about."""
    parts = at.split("/")
    return [mirror.below("/".join(parts[:i])) for i in range(1, len(parts))]


class Pushing:
    """Brings a run to its URL after every epoch, and passes on where it is."""

    def __init__(self, run: Mirror, above: Sequence[Mirror], progress: Progress | None) -> None:
        self._run, self._above, self._progress = run, above, progress

    def push(self) -> None:
        for folder in self._above:
            folder.push_files()
        self._run.push()

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        self._progress = self._progress or suitable_progress()  # in the process that shows it, which need not be that of the call
        self._progress.start(epochs, steps, metric, epoch)

    def step(self, epoch: int, step: int, loss: float) -> None:
        assert self._progress is not None
        self._progress.step(epoch, step, loss)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        assert self._progress is not None
        self.push()  # first: what is told is safe
        self._progress.epoch(record, best)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress.finish()
