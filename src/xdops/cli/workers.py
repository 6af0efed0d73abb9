"""Who makes the runs: this process, several of them, or Ray."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console

from xdops.errors import XDError, several
from xdops.search import Progress
from xdops.search.distributed import under_torchrun
from xdops.storage.place import Place
from xdops.workers import InTurn, Job, Workers
from xdops.workers.mirrored import mirrored
from xdops.workers.on_ray import ray_cluster, ray_on_this_machine
from xdops.workers.processes import Processes


@dataclass(frozen=True)
class WorkerOptions:
    """--workers, --ray, --cpus-per-run and --gpus-per-run, checked."""

    workers: int
    ray: str | None
    cpus: int | None
    gpus: int

    def __post_init__(self) -> None:
        cores = os.cpu_count() or 1
        if not 1 <= self.workers <= 4 * cores:
            raise XDError(f"--workers {self.workers}", f"from 1 to {4 * cores}, four per core here", f"--workers {cores}")
        most = 4096 if self.ray is not None else 4 * cores // self.workers
        if self.cpus is not None and not 1 <= self.cpus <= most:
            where = "" if self.ray is not None else f": four threads per core here, for {self.workers} at a time"
            raise XDError(f"--cpus-per-run {self.cpus}", f"from 1 to {most:,}{where}", "--cpus-per-run 1")
        if self.gpus < 0:
            raise XDError(f"--gpus-per-run {self.gpus}", "0 or more", "--gpus-per-run 0")
        here = torch.cuda.device_count()
        if self.ray is None and self.gpus * self.workers > here:
            given = f"--gpus-per-run {self.gpus} for {self.workers} at a time"
            raise XDError(given, f"at most {several(here, 'GPU')}, those of this machine", "--gpus-per-run 0")
        if self.ray is not None and self.workers > 1:
            raise XDError(
                f"--workers {self.workers} with --ray", "one of them: a cluster runs as many as it has room for", "--ray alone"
            )
        if under_torchrun() and (self.ray is not None or self.workers > 1):
            raise XDError("--workers or --ray under torchrun", "one of the two", "the command without torchrun")

    @property
    def in_turn(self) -> bool:
        return self.ray is None and self.workers == 1

    @property
    def threads(self) -> int:
        """Of each run: all cores, shared by those that run at a time."""
        return self.cpus or (1 if self.ray is not None else max(1, (os.cpu_count() or 1) // self.workers))


def check_processes(workers: int, processes: int) -> None:
    """Refuse more processes on this machine than can be of use: every worker's run has so many."""
    most = 4 * (os.cpu_count() or 1)
    if workers > 1 and workers * processes > most:
        raise XDError(
            f"--workers {workers} with --processes {processes}, {workers * processes} processes at a time",
            f"at most {most}, four per core here",
            f"--workers {max(1, most // processes)}, or --processes 1",
        )


@contextmanager
def open_workers(
    options: WorkerOptions, place: Place, progress: Callable[[Job], Progress | None], console: Console | None
) -> Iterator[Workers]:
    """console: where several runs at a time are shown, None: nowhere; progress: how a single one is."""
    if options.ray is not None:
        with ray_cluster(options.ray, options.threads, options.gpus, place, console) as cluster:
            yield mirrored(cluster, place)
    elif options.in_turn:
        if options.cpus is not None:
            torch.set_num_threads(options.cpus)
        yield mirrored(InTurn(progress), place)
    elif importlib.util.find_spec("ray") is not None:
        with ray_on_this_machine(options.workers, options.threads, options.gpus, console) as ray_here:
            yield mirrored(ray_here, place)
    else:
        yield mirrored(Processes(options.workers, options.threads, options.gpus, console), place)
