"""Runs that do not depend on each other, and who makes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from xdops.search import Progress

Call = Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """call(shared, *arguments, progress): a run that keeps its folder, and goes on from what is there if it is called again."""

    name: str  # "xd, seed 1"
    folder: Path  # its metrics.jsonl says how far the run is
    epochs: int  # that it is to have in the end
    call: Call
    arguments: tuple[Any, ...]


class Workers(Protocol):
    def run(self, shared: Any, jobs: Sequence[Job]) -> list[Any]:
        """What each job returns, in order. shared: what all of them need, sent to every worker.

        Raises Interrupted when asked to stop, with everything saved, and whatever a job raises.
        """
        ...


@runtime_checkable
class Racers(Workers, Protocol):
    """Workers with a scheduler of their own, which gives up early what is worse than others."""

    def race(self, shared: Any, jobs: Sequence[Job], first: int, eta: int, higher: bool, scratch: Path) -> list[int]:
        """Up to which epoch each job was trained; see `xdops.workers.asha`."""
        ...


@dataclass(frozen=True)
class InTurn:
    """One after the other in this process. progress(job): how each is shown."""

    progress: Callable[[Job], Progress | None]

    def run(self, shared: Any, jobs: Sequence[Job]) -> list[Any]:
        return [job.call(shared, *job.arguments, self.progress(job)) for job in jobs]
