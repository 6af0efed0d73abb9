"""Jobs in processes of this machine, a process for each: one that is killed is started again, and its run resumes."""

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from rich.console import Console

from xdops.errors import XDError
from xdops.search import Interrupted, Silent
from xdops.search.signals import StopRequest, stop_on_signals, stop_with_parent
from xdops.workers.board import Board
from xdops.workers.jobs import Job

#: How often a job is started again whose process died.
RETRIES = 3
#: Seconds between two looks at how far the runs are.
_LOOK = 0.5


@dataclass(frozen=True)
class Processes:
    """workers at a time, each with so many threads and GPUs. console: where progress is shown, None: nowhere."""

    workers: int
    threads: int
    gpus: int = 0
    console: Console | None = None

    def run(self, shared: Any, jobs: Sequence[Job]) -> list[Any]:
        with stop_on_signals(announce=True, forward=True) as stop, Board(self.console, jobs) as board:
            team = _Team(self, shared, jobs, stop)
            try:
                while team.left():
                    board.update(team.left())
                    team.step()
                board.update([])
            finally:
                team.kill()
        return team.results()


class _Failed(Exception):
    """A mistake in a worker; says its traceback."""


class _Team:
    """Jobs that wait, run and are done."""

    def __init__(self, settings: Processes, shared: Any, jobs: Sequence[Job], stop: StopRequest) -> None:
        self.settings, self.shared, self.jobs, self.stop = settings, shared, jobs, stop
        methods = multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self.context.set_forkserver_preload(["xdops.experiments.experiment", "xdops.reproduce.reproduction"])
        self.waiting = list(range(len(jobs)))[::-1]
        self.running: dict[Connection, tuple[int, int, BaseProcess]] = {}  # job, slot, process
        self.died = [0] * len(jobs)
        self.found: dict[int, Any] = {}

    def left(self) -> list[Job]:
        return [job for i, job in enumerate(self.jobs) if i not in self.found]

    def results(self) -> list[Any]:
        return [self.found[i] for i in range(len(self.jobs))]

    def step(self) -> None:
        """Start what can be started, then wait for something to end."""
        while self.waiting and len(self.running) < self.settings.workers and not self.stop.requested:
            self._start(self.waiting.pop())
        if not self.running:
            raise KeyboardInterrupt  # asked to stop, and nobody has anything to save
        for connection in wait(list(self.running), timeout=_LOOK):
            assert isinstance(connection, Connection)
            self._end(connection)

    def _start(self, index: int) -> None:
        here, there = self.context.Pipe(duplex=False)
        slot = next(slot for slot in range(self.settings.workers) if all(slot != other for _, other, _ in self.running.values()))
        devices = [str(slot * self.settings.gpus + i) for i in range(self.settings.gpus)]
        process = self.context.Process(
            target=_work, args=(there, self.jobs[index], self.shared, self.settings.threads, ",".join(devices))
        )
        process.start()
        there.close()
        self.running[here] = (index, slot, process)

    def _end(self, connection: Connection) -> None:
        index, _, process = self.running.pop(connection)
        try:
            kind, value = connection.recv()
        except EOFError:  # it died without a word
            kind, value = "died", None
        connection.close()
        process.join()
        if kind == "done":
            self.found[index] = value
        elif kind == "died":
            self._again(index, process)
        else:
            self._stop_all()
            raise value

    def _again(self, index: int, process: BaseProcess) -> None:
        if self.stop.requested:
            return
        self.died[index] += 1
        if self.died[index] > RETRIES:
            self._stop_all()
            raise XDError(
                f"{self.jobs[index].name}, whose process died {self.died[index]} times (exit code {process.exitcode})",
                "a process that lives as long as its run",
                "look for what killed it (memory is the usual cause), fewer --workers, then --resume",
            )
        self.waiting.append(index)

    def _stop_all(self) -> None:
        """Let the others save what they have."""
        for _, _, process in self.running.values():
            process.terminate()
        for _, _, process in self.running.values():
            process.join()
        self.running.clear()

    def kill(self) -> None:
        for _, _, process in self.running.values():
            process.kill()


def _work(connection: Connection, job: Job, shared: Any, threads: int, devices: str) -> None:
    """In the worker: do the job, and send how it ended."""
    os.setpgrp()  # Ctrl-C at the terminal reaches the first process alone, which passes it on
    stop_with_parent()
    torch.set_num_threads(threads)
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
    try:
        ending = "done", job.call(shared, *job.arguments, Silent())
    except (XDError, Interrupted, KeyboardInterrupt) as error:
        ending = "ended", error
    except BaseException:
        ending = "ended", _Failed(f"{job.name}:\n{traceback.format_exc()}")
    with contextlib.suppress(BrokenPipeError):  # nobody is left to hear it
        connection.send(ending)
