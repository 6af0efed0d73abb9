"""One search from start to end, or its first epochs."""

import pickle
import shutil
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from lightning_fabric import Fabric
from torch import nn

from xdops.arguments import checked
from xdops.convert import novelty
from xdops.engine.machine import rates_restored
from xdops.errors import XDError
from xdops.search.batches import step_count
from xdops.search.checkpoint import (
    Checkpoint,
    best_name,
    load_checkpoint,
    load_weights,
    newest,
    of_run,
    save_checkpoint,
    save_generation,
)
from xdops.search.children import ChildGone, in_children
from xdops.search.distributed import launch, make_fabric, total, under_torchrun
from xdops.search.folder import (
    CHECKPOINTS,
    METRICS,
    RESULT,
    SCORES,
    WRITTEN,
    check_folder,
    write_identity,
    write_result,
    write_scores,
)
from xdops.search.identity import identify
from xdops.search.loop import Loop
from xdops.search.packing import load_network, pack_network
from xdops.search.problem import Problem
from xdops.search.progress import Progress, Silent, suitable_progress
from xdops.search.records import Records
from xdops.search.results import Diverged, EpochRecord, Interrupted, SearchResult
from xdops.search.seeds import reproducible
from xdops.search.settings import SearchSettings
from xdops.search.signals import StopRequest, stop_on_signals
from xdops.storage.documents import digest
from xdops.storage.files import DiskFull, check_target, make_folder
from xdops.storage.lock import lock

T = TypeVar("T")
#: What is done with a run that is open.
Work = Callable[["_Run", StopRequest], T]


@checked
def search(
    network: nn.Module,
    problem: Problem,
    settings: SearchSettings,
    out: Path,
    *,
    resume: bool = False,
    describe: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Train weights and architecture of `network` together; afterwards it holds the epoch that was best on validation.

    out: the run's folder, see `xdops.search.folder`. resume: continue what is there, bit for bit, or start if nothing is.
    describe: JSON data that identifies the network, kept in run.json and compared on resume.
    progress: a bar on a terminal and plain lines elsewhere unless given; `Silent()` for none.
    Raises Interrupted after Ctrl-C or SIGTERM (all is saved), Diverged when the numbers blow up, XDError for anything it refuses.
    """
    out = Path(out)
    with ExitStack() as held:
        if not under_torchrun():
            held.enter_context(lock(out))
        result = _train(network, _to_the_end, problem, settings, out, resume, describe, progress)
        if settings.processes > 1 and not under_torchrun():
            load_weights(out, network)  # the processes that trained it are gone
    return result


@checked
def train_until(
    epochs: int,
    network: nn.Module,
    problem: Problem,
    settings: SearchSettings,
    out: Path,
    *,
    describe: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[EpochRecord, ...]:
    """The first epochs of a search, as many as are not done yet; returns the records of all that are. Nothing is tested.

    A later call, or `search` with resume, goes on from there bit for bit. The rest is as in `search`.
    """
    out = Path(out)
    with ExitStack() as held:
        if not under_torchrun():
            held.enter_context(lock(out))
        return _train(network, partial(_up_to, epochs), problem, settings, out, True, describe, progress)


def _to_the_end(run: "_Run", stop: StopRequest) -> SearchResult:
    run.train(stop, run.loop.settings.epochs)
    result = run.conclude()
    run.stop_if_asked(stop)
    return result


def _up_to(epochs: int, run: "_Run", stop: StopRequest) -> tuple[EpochRecord, ...]:
    run.train(stop, epochs)
    return tuple(run.loop.position.history)


def _train(network: nn.Module, work: Work[T], problem: Problem, settings: SearchSettings, *arguments: Any) -> T:
    """In this process or in processes of our own."""
    fabric = make_fabric(settings)
    if fabric.world_size == 1 or under_torchrun():
        return launch(fabric, _train_here, network, work, problem, settings, *arguments)
    with stop_on_signals(announce=False, forward=True) as stop:
        try:
            kind, *details = in_children(settings, _train_in_child, network, work, problem, settings, *arguments)
        except ChildGone:
            if stop.requested:  # before they could answer
                raise KeyboardInterrupt from None
            raise
    if kind != "done":
        raise _ENDINGS[kind](*details)
    return pickle.loads(details[0])


_ENDINGS: dict[str, Callable[..., Exception]] = {
    "Interrupted": Interrupted,
    "Diverged": Diverged,
    "DiskFull": DiskFull,
    "XDError": XDError,
}


def _train_in_child(fabric: Fabric, *arguments: Any) -> tuple[Any, ...]:
    """In a started process, its ending as plain data. All processes end alike, see `_Run._first`."""
    try:
        return "done", pickle.dumps(_train_here(fabric, *arguments))
    except Interrupted as ending:
        return "Interrupted", *ending.__reduce__()[1]
    except XDError as error:
        kind = type(error).__name__
        return kind if kind in _ENDINGS else "XDError", error.given, error.expected, error.hint


def _train_here(
    fabric: Fabric,
    network: nn.Module,
    work: Work[T],
    problem: Problem,
    settings: SearchSettings,
    out: Path,
    resume: bool,
    describe: dict[str, Any] | None,
    progress: Progress | None,
) -> T:
    modes = {module: module.training for module in network.modules()}
    shown = (progress or suitable_progress()) if fabric.is_global_zero else Silent()
    with reproducible(), rates_restored(), stop_on_signals(announce=fabric.is_global_zero) as stop:
        loop = Loop(fabric, network, problem, settings)
        run, failed = _Run(loop, out, identify(network, problem, settings, describe), shown), False
        try:
            run.open(resume)
            return work(run, stop)
        except (Interrupted, Diverged, DiskFull):  # which leave something to go on from, or to look at
            raise
        except Exception:
            failed = True
            raise
        finally:
            run.close(failed)
            loop.parameters.freeze_architecture(False)
            for module, training in modes.items():
                module.training = training


class _Run:
    """A loop and its folder. Only the first process writes; the others hear whether it could."""

    def __init__(self, loop: Loop, out: Path, identity: dict[str, Any], progress: Progress) -> None:
        self.loop, self.out, self.identity, self.progress = loop, out, identity, progress
        self.digest = digest(identity)
        self.folder = out / CHECKPOINTS
        self.begun: list[Path] = []  # by this call: files and folders of a run that was not there before
        self.records: Records | None = None
        self.held = ExitStack()

    def open(self, resume: bool) -> None:
        """Take the folder, and continue from its newest checkpoint if there is one."""
        self._first(lambda: self._take(resume))
        # The first process looks for all: a slower one would find what the first has written meanwhile, and take the other way.
        if self._first(lambda: newest(self.folder, self.digest) is not None):
            self.loop.restore(self._seen_by_all())
        else:
            self.save()  # so that there is a last good state from the first step on
        self._first(self._open_records)
        settings, position = self.loop.settings, self.loop.position
        steps = step_count(len(self.loop.problem.train), settings)
        self.progress.start(settings.epochs, steps, self.loop.problem.metric.name, position.epoch)

    def _seen_by_all(self) -> Checkpoint:
        """The checkpoint that the first process has found, on every process."""
        checkpoint = newest(self.folder, self.digest)
        if checkpoint is None:
            raise XDError(
                f"{self.out}, in which this machine sees no checkpoint while that of the first process does",
                "a folder that all machines see",
                "--out on storage that they share",
            )
        return checkpoint

    def _take(self, resume: bool) -> None:
        if under_torchrun():
            self.held.enter_context(lock(self.out))
        for name in (METRICS, SCORES, RESULT):
            check_target(self.out / name, 1)
        if not check_folder(self.out, self.identity, resume):
            self.begun = [self.out / name for name in WRITTEN if not (self.out / name).exists()]
            make_folder(self.out)
            write_identity(self.out, self.identity)

    def _open_records(self) -> None:
        self.records = Records(self.out, self.loop.position.history, self.loop.settings.epochs)

    def train(self, stop: StopRequest, epochs: int) -> None:
        """Those of the first `epochs` epochs that are left."""
        loop, position = self.loop, self.loop.position
        while position.epoch < epochs:
            steps = loop.begin_epoch()
            seen = sum(loop.weight(s) for s in steps[: position.step])
            while position.step < len(steps):
                step = steps[position.step]
                stopping = loop.step(step, stop.requested)
                seen += loop.weight(step)
                self.progress.step(position.epoch, position.step, position.loss / seen)
                if stopping:
                    self.save()
                    raise Interrupted(self.out, position.epoch, position.step)
            best = loop.end_epoch()
            self.save(best)
            self._first(self._log)
            self.progress.epoch(position.history[-1], best)
            self.stop_if_asked(stop)

    def stop_if_asked(self, stop: StopRequest) -> None:
        """End here, where all is saved, if any process was asked to; after the last epoch too, as more runs may follow."""
        if total(self.loop.fabric, float(stop.requested))[0]:
            raise Interrupted(self.out, self.loop.position.epoch, self.loop.position.step)

    def save(self, best: bool = False) -> None:
        """A new generation of the running state, after the best weights if these are them."""
        self._first(lambda: self._write(best))

    def _write(self, best: bool) -> None:
        if best:
            tensors, extra = pack_network(self.loop.network)
            facts = {"extra": extra, "best": self.loop.position.best, "record": self.loop.position.history[-1].to_dict()}
            save_checkpoint(self.folder, best_name(self.loop.position.epoch), tensors, facts, self.digest)
        save_generation(self.folder, self.loop.tensors(), self.loop.facts(), self.digest)

    def _log(self) -> None:
        assert self.records is not None
        self.records.add(self.loop.position.history[-1], self.loop.moved, self.loop.network)

    def conclude(self) -> SearchResult:
        """Test the last and the best weights; the network keeps the best."""
        loop, position = self.loop, self.loop.position
        assert position.best is not None
        test = loop.problem.test
        _, at_last = loop.evaluate(test, "test")
        at_best = at_last
        best = of_run(load_checkpoint(self.folder / f"{best_name(position.best)}.json"), self.digest)
        if position.best != position.epoch:
            load_network(loop.network, best.tensors, best.facts["extra"])
            _, at_best = loop.evaluate(test, "test")
        scores = loop.score(test)
        if scores is not None:
            self._first(lambda: write_scores(self.out, self.identity, scores))
        result = SearchResult(
            metric=loop.problem.metric.name,
            higher_is_better=loop.problem.metric.higher_is_better,
            best_epoch=position.best,
            best_validation=position.history[position.best - 1].validation_metric,
            last_validation=position.history[-1].validation_metric,
            test_at_best=at_best,
            test_at_last=at_last,
            seconds_per_epoch=statistics.median(r.seconds for r in position.history),
            weights=sum(p.numel() for p in loop.parameters.weights),
            architecture=sum(p.numel() for p in loop.parameters.architecture),
            novelty={name: float(value) for name, value in novelty(loop.network).items()},
            history=tuple(position.history),
            best_checkpoint=f"{CHECKPOINTS}/{best_name(position.best)}.safetensors",
            best_sha256=best.sha256,
        )
        self._first(lambda: write_result(self.out, self.identity, result))
        return result

    def close(self, failed: bool) -> None:
        """failed: by what is no matter of going on, as a network does that cannot be trained. If no epoch was done, nothing is left
        of it: the corrected call finds nothing in its way."""
        with self.held:
            if self.records is not None:
                self.records.close()
            self.progress.finish()
            if failed and not self.loop.position.history:
                for path in self.begun:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _first(self, action: Callable[[], T]) -> T:
        """Do it on the first process, whose result all return; if it fails there, all raise the same error and none waits."""
        outcome: tuple[XDError | None, T | None] = None, None
        if self.loop.fabric.is_global_zero:
            try:
                outcome = None, action()
            except XDError as problem:
                outcome = problem, None
        error, result = self.loop.fabric.broadcast(outcome)
        if error is not None:
            raise error
        return cast(T, result)
