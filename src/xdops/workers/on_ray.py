"""Jobs as tasks of Ray: on this machine, or on a cluster whose machines all see the runs' folder.

A task whose worker or machine dies is started again by Ray, and its run resumes from its folder: at most an epoch is lost.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from xdops.errors import XDError, several
from xdops.search import Silent
from xdops.search.signals import stop_on_signals
from xdops.storage.place import Place
from xdops.workers.board import Board, Look, LookThere, look_here
from xdops.workers.jobs import Job
from xdops.workers.processes import RETRIES

#: Seconds between two looks at how far the runs are, for a task to stop, and for a machine to answer.
_LOOK, _PATIENCE, _ANSWER = 0.5, 30.0, 300.0


@dataclass(frozen=True)
class OnRay:
    """Tasks on the Ray that is connected, each with so many CPUs, which are its threads, and GPUs."""

    cpus: int
    gpus: int
    console: Console | None = None
    look: Look = look_here

    def run(self, shared: Any, jobs: Sequence[Job]) -> list[Any]:
        import ray

        task = ray.remote(_work).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=RETRIES)
        sent = ray.put(shared)
        tasks = {task.remote(job.call, sent, job.arguments, self.cpus): job for job in jobs}
        order, left = list(tasks), dict(tasks)
        with stop_on_signals(announce=True) as stop, Board(self.console, jobs, self.look) as board:
            try:
                while left:
                    board.update(list(left.values()))
                    for done in ray.wait(list(left), timeout=_LOOK)[0]:
                        _result(done, left.pop(done))
                    if stop.requested:
                        raise KeyboardInterrupt
                board.update([])
            except BaseException:
                cancel(list(left))
                raise
        return [ray.get(done) for done in order]

    def race(self, shared: Any, jobs: Sequence[Job], first: int, eta: int, higher: bool, scratch: Path) -> list[int]:
        from xdops.workers.asha import race

        return race(self, shared, jobs, first, eta, higher, scratch)


def _work(call: Callable[..., Any], shared: Any, arguments: tuple[Any, ...], threads: int) -> Any:
    """In the worker."""
    torch.set_num_threads(threads)
    return call(shared, *arguments, Silent())


def _result(task: Any, job: Job) -> Any:
    """What the task returned; or its own error, instead of Ray's about it."""
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ray.exceptions.TaskCancelledError):  # what Ray makes of a KeyboardInterrupt of the task's own
            raise KeyboardInterrupt from error
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise XDError(
            f"{job.name}, whose worker died {RETRIES + 1} times ({str(error).splitlines()[0]})",
            "workers that live as long as a run",
            "look for what killed them (memory is the usual cause), then --resume",
        ) from error


def cancel(tasks: Sequence[Any]) -> None:
    """Ask the tasks to stop, as Ctrl-C would, and wait until they have saved.

    A worker that is still loading libraries may not hear it, so it is asked again; who does not listen then is killed, and has its
    last epoch.
    """
    import ray

    left = list(tasks)
    for force in (False, False, True):
        if left:
            for task in left:
                ray.cancel(task, force=force)
            _, left = ray.wait(left, num_returns=len(left), timeout=_PATIENCE)


@contextmanager
def ray_on_this_machine(workers: int, cpus: int, gpus: int, console: Console | None) -> Iterator[OnRay]:
    """A Ray of our own, whatever else runs on this machine, which ends with the block."""
    with _connected(address="local", num_cpus=workers * cpus, num_gpus=workers * gpus, include_dashboard=False):
        yield OnRay(cpus, gpus, console)


@contextmanager
def ray_cluster(address: str, cpus: int, gpus: int, place: Place, console: Console | None) -> Iterator[OnRay]:
    """The Ray whose head is at this address, refused unless a run finds room on it and every machine sees the place."""
    check_address(address)
    with _connected(address=address):
        check_resources(cpus, gpus)
        check_shared(place)
        yield OnRay(cpus, gpus, console, look_here if place.mirror is None else LookThere(place.mirror))


#: For Ray in this process: no handler and no boxes of Ray Tune's in the place of ours; a Ray of our own runs at our own priority.
_SURROUNDINGS = {"TUNE_DISABLE_SIGINT_HANDLER": "1", "RAY_AIR_NEW_OUTPUT": "0", "RAY_worker_niceness": "0"}


@contextmanager
def _connected(**options: Any) -> Iterator[None]:
    """With a quiet Ray; the environment and its logger are as before afterwards."""
    ray = import_ray()
    before, logger = {name: os.environ.get(name) for name in _SURROUNDINGS}, logging.getLogger("ray")
    level = logger.level
    os.environ.update(_SURROUNDINGS)
    logger.setLevel(logging.ERROR)
    try:
        with _initialised(ray, **options):
            yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


@contextmanager
def _initialised(ray: Any, **options: Any) -> Iterator[None]:
    # Workers find what this process finds, the current folder included.
    path = os.pathsep.join(dict.fromkeys([*(entry for entry in sys.path if entry), os.getcwd()]))
    environment = {"env_vars": {"PYTHONPATH": path, "RAY_CHDIR_TO_TRIAL_DIR": "0"}}
    try:
        ray.init(**options, runtime_env=environment, log_to_driver=False, logging_level="error", configure_logging=False)
    except Exception as error:  # Ray has many: no connection, another version, no node on this machine
        reason = str(error).strip().partition("\n")[0]
        if options["address"] == "local":
            raise XDError(
                f"--workers, for which Ray does not start ({reason})",
                "a Ray that does",
                "pip uninstall ray: plain processes do it too",
            ) from error
        raise XDError(
            f"--ray {options['address']}, which does not answer ({reason})",
            "a Ray head that this machine has joined, of the same version, and this machine's token if the cluster wants one",
            "ray start --address=HEAD:6379 on this machine, then --ray auto; or RAY_AUTH_MODE=token in the environment",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise XDError("--ray without Ray", "the extra that brings it", "pip install 'xdops[ray]'") from error
    return ray


def check_address(address: str) -> None:
    """Refuse at once a head that nobody answers at: Ray itself would try for minutes."""
    head = joined() if address == "auto" else address
    host, _, port = head.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise XDError(f"--ray {address}", "HOST:PORT of the head, or auto: the cluster that this machine has joined", "--ray auto")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise XDError(
            f"--ray {address}, and at {head} nobody answers ({error})",
            "the address of a running Ray head",
            "ray start --address=HEAD:6379 on this machine, then --ray auto",
        ) from error


def joined() -> str:
    """The head of the cluster that this machine has joined: of RAY_ADDRESS, or as `ray start` has noted it."""
    import_ray()
    from ray._private.services import canonicalize_bootstrap_address

    try:
        found = canonicalize_bootstrap_address("auto")
    except (OSError, ValueError):  # no Ray is running here, or RAY_ADDRESS is no address
        found = None
    if found is None:
        given = os.environ.get("RAY_ADDRESS")
        raise XDError(
            "--ray auto on a machine that has joined no Ray cluster" + (f" (RAY_ADDRESS is {given})" if given else ""),
            "one that has",
            "ray start --address=HEAD:6379, or --workers",
        )
    return found


def check_resources(cpus: int, gpus: int) -> None:
    """Refuse runs that no machine of the cluster has room for: they would wait for ever."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
        there = "; ".join(f"{m.get('CPU', 0):.0f} CPUs and {m.get('GPU', 0):.0f} GPUs" for m in machines)
        raise XDError(
            f"runs of {several(cpus, 'CPU')} and {several(gpus, 'GPU')}",
            f"what one machine has: {there}",
            "--cpus-per-run 1 --gpus-per-run 0",
        )


def check_shared(place: Place) -> None:
    """Refuse a folder or URL that not every machine of the cluster sees: a probe file is looked for on each."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(_blind)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    at = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    with place.probing() as probe:
        tasks = [look.options(num_cpus=0, scheduling_strategy=there).remote(place, probe) for there in at]
        ready, _ = ray.wait(tasks, num_returns=len(tasks), timeout=_ANSWER)
        reasons = [ray.get(task) if task in ready else "no answer" for task in tasks]
    blind = [f"{node['NodeManagerAddress']} ({why})" for node, why in zip(nodes, reasons, strict=True) if why is not None]
    if blind:
        raise XDError(
            f"--out {place}, which is not seen by {', '.join(blind)}",
            "a folder that all machines share, or a URL that all can open",
            "a path on NFS or the like",
        )


def _blind(place: Place, probe: str) -> str | None:
    return place.blind_for(probe)
