"""Trials on Ray, stopped early by Ray Tune's own scheduler, ASHA: a trial goes on as soon as it is among the better third so far.

Nobody waits for the others, so which trials go on depends on who comes first; a trial itself is the same to the bit wherever it is
trained. Ray Tune keeps nothing: each trial resumes from its own folder.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from xdops.search import EpochRecord, Silent
from xdops.search.folder import METRICS
from xdops.search.signals import stop_on_signals
from xdops.workers.board import Board
from xdops.workers.jobs import Job
from xdops.workers.on_ray import OnRay
from xdops.workers.processes import RETRIES

#: What a trial that blew up is reported with.
_HOPELESS = -1e30


def race(workers: OnRay, shared: Any, jobs: Sequence[Job], first: int, eta: int, higher: bool, scratch: Path) -> list[int]:
    """Up to which epoch each job was trained. The jobs train for all epochs; first: the epoch before which none is stopped.

    After Ctrl-C all of them are stopped, each with its last epoch saved.
    """
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    # What `train` refers to is sent to the workers.
    sent, sign, threads = ray.put(shared), 1 if higher else -1, workers.cpus

    def train(config: dict[str, Any]) -> None:
        torch.set_num_threads(threads)
        job = jobs[config["number"]]
        told = _Told(job, sign)
        trial = job.call(ray.get(sent), *job.arguments, told)
        if trial.best is None:
            tune.report({"epoch": told.epochs + 1, "value": _HOPELESS})

    board = Board(workers.console, jobs, workers.look)
    shown, asked = _Here(board), _Here()

    class Shown(tune.Callback):
        def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
            shown.value.update([jobs[trial.config["number"]] for trial in trials if not trial.is_finished()])

    class Asked(tune.Stopper):
        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return asked.value.requested

        def stop_all(self) -> bool:
            return asked.value.requested

    scheduler = ASHAScheduler(
        time_attr="epoch", metric="value", mode="max", max_t=jobs[0].epochs, grace_period=first, reduction_factor=eta
    )
    with stop_on_signals(announce=True) as stop:
        asked.value = stop
        tuner = tune.Tuner(
            tune.with_resources(train, {"cpu": workers.cpus, "gpu": workers.gpus}),
            param_space={"number": tune.grid_search(list(range(len(jobs))))},
            tune_config=tune.TuneConfig(scheduler=scheduler),
            run_config=tune.RunConfig(
                name="asha",
                storage_path=str(scratch),
                stop=Asked(),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                verbose=0,
                callbacks=[Shown()],
            ),
        )
        try:
            with board:
                results = tuner.fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if stop.requested:
            raise KeyboardInterrupt
    if results.errors:
        raise results.errors[0]
    ended = [results[i] for i in range(len(results))]
    reached = {(result.config or {})["number"]: int((result.metrics or {})["epoch"]) for result in ended}
    return [reached[number] for number in range(len(jobs))]


class _Here:
    """A value of this process: Ray Tune pickles what it is given, and need not keep this."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _Here, ()


class _Told(Silent):
    """Reports the best validation so far after every epoch, those of an earlier start included."""

    def __init__(self, job: Job, sign: int) -> None:
        self.job, self.sign, self.best, self.epochs = job, sign, _HOPELESS, 0

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        lines = (self.job.folder / METRICS).read_text().splitlines()
        for line in lines[:epoch]:
            self.epoch(EpochRecord(**json.loads(line)), False)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        from ray import tune

        self.best, self.epochs = max(self.best, self.sign * record.validation_metric), record.epoch
        tune.report({"epoch": record.epoch, "value": self.best})
