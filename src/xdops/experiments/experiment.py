"""A backbone and search spaces over it, trained alike on one task with several seeds, in one folder that can be resumed."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdops.data.task import Task
from xdops.errors import XDError, first_line, several
from xdops.experiments.finished import check_run, describe_run, finished_result
from xdops.experiments.folder import (
    REPORT,
    RESULTS,
    RUNS,
    SETTINGS,
    check_folder,
    note_failure,
    read_settings,
    remove_failed,
    run_folder,
    trial_folder,
    tuning_path,
    write_settings,
)
from xdops.experiments.network import PLAIN, TRAINED, NetworkSettings
from xdops.experiments.ranges import Values, matter, with_values
from xdops.experiments.trial import blaming, check_training, telling_which
from xdops.experiments.tuning import ETA, Trial, Tuned, Tuning, best_record, choose, halve
from xdops.measuring.duration import check_duration
from xdops.search import Diverged, Interrupted, Progress, SearchResult, SearchSettings, search, train_until
from xdops.search.distributed import check_machine, under_torchrun
from xdops.search.folder import RESULT, RUN, SCORES
from xdops.storage.documents import digest
from xdops.storage.files import DiskFull, check_room, check_target, make_folder
from xdops.storage.lock import lock
from xdops.workers import Job, Racers, Workers

#: Floats that a run keeps per parameter: two generations of weights and two Adam moments each, and the best weights.
COPIES = 2 * 3 + 2
MOST_SEEDS = 10_000
#: Trials are trained from this seed less the first one of the runs, so that these start afresh.
LAST_SEED = 2**31 - 1


def first_process() -> bool:
    """Under torchrun several processes run all of this; one of them keeps the folder."""
    return not under_torchrun() or os.environ.get("RANK") == "0"


@dataclass(frozen=True)
class Experiment:
    task: Task
    network: NetworkSettings
    spaces: tuple[str, ...]
    seeds: int
    search: SearchSettings  # its seed is that of the first run
    own: Mapping[str, Values]  # by space, settings that are not the same for all: a comparison is fair at the best of each
    out: Path
    command: str
    tuning: Tuning | None = None  # None: nothing is tuned

    def __post_init__(self) -> None:
        unknown = [space for space in self.spaces if space not in TRAINED]
        if unknown or not self.spaces:
            raise XDError(f"--spaces {','.join(self.spaces)}", f"some of {', '.join(TRAINED)}", "--spaces backbone,xd")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise XDError(f"--seeds {self.seeds}", f"from 1 to {MOST_SEEDS:,}; 3 or more to tell skill from chance", "--seeds 3")
        if self.search.warmup >= self.search.epochs and set(self.spaces) != {"backbone"}:
            raise XDError(
                f"--warmup {self.search.warmup} of {several(self.search.epochs, 'epoch')}, after which no architecture moves",
                "fewer epochs of warm-up than of training",
                f"--warmup {self.search.epochs // 2}",
            )

    def identity(self) -> dict[str, Any]:
        """What must be the same for a folder to be continued; more spaces or seeds may be added to it."""
        facts = {
            "data": self.task.problem.signature(),
            "reading": self.task.reading.to_dict(),
            "network": self.network.to_dict(),
            "search": self.search.to_dict(),
            "own": {space: dict(values) for space, values in sorted(self.own.items())},
        }
        if self.tuning is not None:
            facts["tuning"] = self.tuning.to_dict()
        return json.loads(json.dumps(facts))

    def run(
        self, resume: bool, workers: Workers, however_long: bool = False, held: ExitStack | None = None
    ) -> dict[str, list[SearchResult]]:
        """Every trial and every (space, seed) that is not finished yet, in order of seeds; results by space.

        held: where the folder's lock is kept by who has more to write into it, a report.
        """
        if not first_process():
            return self._run_all(workers)
        self.check(resume, however_long)
        with ExitStack() as own:
            (own if held is None else held).enter_context(lock(self.out))
            check_folder(self.out, self.identity(), resume)  # again, now that nobody else can change it
            remove_failed(self.out, self.identity())
            write_settings(self.out, self.settings())
            try:
                return self._run_all(workers)
            except (Interrupted, DiskFull):  # which can be continued
                raise
            except Exception as error:
                free = note_failure(self.out, first_line(error))
                if isinstance(error, Diverged) and not free:
                    hint = f"{error.hint}; with another --out, since {self.out} keeps what was finished as it was"
                    raise Diverged(error.given, error.expected, hint) from error
                raise

    def check(self, resume: bool, however_long: bool) -> None:
        """All that can be refused, before anything is written: a corrected command then finds nothing in its way."""
        check_machine(self.search)
        if check_folder(self.out, self.identity(), resume):
            self._check_earlier()
        check_room(self.out, 1)
        parameters, seconds = 0, 0.0
        for space in self.spaces:
            network = self.network.build(self.task.request, space, self.search.seed)
            parameters += sum(p.numel() for p in network.parameters())
            settings = self.settings_of(space, self.search)
            with telling_which(space):
                seconds += check_training(network, self.task.problem, settings, self.network.backbone)
        trials = 0 if self.tuning is None else self.tuning.trials
        check_duration(seconds * self.epochs_of_each(), however_long)
        check_room(self.out, 4 * COPIES * (self.seeds + trials) * parameters)

    def _check_earlier(self) -> None:
        """Refuse what is there of this experiment if it is damaged or in the way of what will be written."""
        for name in (RESULTS, REPORT):
            check_target(self.out / name, 1)
        check_room(self.out / RUNS, 1)
        for space in self.spaces:
            if self.tuning is not None and tuning_path(self.out, space).exists():
                Tuned.read(tuning_path(self.out, space), digest(self.identity()))
            for settings in self.run_settings():
                folder, describe = run_folder(self.out, space, settings.seed), describe_run(self.identity(), space)
                if (folder / RESULT).exists():
                    finished_result(folder, describe, settings.seed)
                elif (folder / RUN).exists():
                    check_run(folder, describe, settings.seed)

    def _run_all(self, workers: Workers) -> dict[str, list[SearchResult]]:
        tuned = self._tune(workers)
        runs = [(space, settings) for settings in self.run_settings() for space in self.spaces]
        jobs = [self._job(space, self.settings_of(space, settings, tuned.get(space))) for space, settings in runs]
        results: dict[str, list[SearchResult]] = {space: [] for space in self.spaces}
        for (space, _), result in zip(runs, workers.run(self, jobs), strict=True):
            results[space].append(result)
        return results

    def _job(self, space: str, settings: SearchSettings) -> Job:
        folder = run_folder(self.out, space, settings.seed)
        return Job(f"{space}, seed {settings.seed}", folder, settings.epochs, Experiment.run_one, (space, settings))

    def epochs_of_each(self) -> int:
        """Epochs that every space is trained for, in trials and runs."""
        tuning = 0 if self.tuning is None else self.tuning.epochs(self.search.epochs)
        return self.search.epochs * self.seeds + tuning

    def settings(self) -> dict[str, Any]:
        """settings.json: spaces and seeds of earlier calls with --resume stay in it."""
        nothing = {"spaces": [], "seeds": [], "identity": self.identity()}
        earlier = read_settings(self.out) if (self.out / SETTINGS).exists() else nothing
        if earlier["identity"] != self.identity():  # of one that failed
            earlier = nothing
        return {
            "task": self.task.name,
            "notes": list(self.task.notes),
            "command": self.command,
            "spaces": list(dict.fromkeys([*earlier["spaces"], *self.spaces])),
            "seeds": sorted({*earlier["seeds"], *(s.seed for s in self.run_settings())}),
            "identity": self.identity(),
        }

    def run_settings(self) -> list[SearchSettings]:
        return [dataclasses.replace(self.search, seed=self.search.seed + i) for i in range(self.seeds)]

    def settings_of(self, space: str, settings: SearchSettings, tuned: Tuned | None = None) -> SearchSettings:
        """The same for all, but for what is a space's own, and for what was tuned; networks that are not searched are alike."""
        own = self.own.get("backbone" if space in PLAIN else space, {})
        return with_values(with_values(settings, own), {} if tuned is None else tuned.values)

    def run_one(self, space: str, settings: SearchSettings, progress: Progress | None) -> SearchResult:
        """One run with these settings, to its end."""
        folder = run_folder(self.out, space, settings.seed)
        describe = describe_run(self.identity(), space)
        if (folder / RESULT).exists() and (folder / SCORES).exists():
            return finished_result(folder, describe, settings.seed)
        network = self.network.build(self.task.request, space, settings.seed)
        with telling_which(f"{space}, seed {settings.seed}"), blaming(self.network.backbone):
            return search(network, self.task.problem, settings, folder, resume=True, describe=describe, progress=progress)

    # Tuning

    def _tune(self, workers: Workers) -> dict[str, Tuned]:
        """What was chosen for every space: read if it is known, raced for otherwise."""
        if self.tuning is None:
            return {}
        experiment, metric = digest(self.identity()), self.task.problem.metric
        left = [space for space in self.spaces if not tuning_path(self.out, space).exists()]
        tuned = {s: Tuned.read(tuning_path(self.out, s), experiment) for s in self.spaces if s not in left}

        for space, trials in self._race(left, self.tuning, workers).items():
            tuned[space] = choose(space, trials, metric)
            if first_process():
                make_folder(tuning_path(self.out, space).parent)
                tuned[space].write(tuning_path(self.out, space), experiment)
        return tuned

    def _race(self, spaces: Sequence[str], tuning: Tuning, workers: Workers) -> dict[str, list[Trial]]:
        """All trials by space, as far as each came. What is given up early on Ray is decided by its own scheduler."""
        epochs, metric = self.search.epochs, self.task.problem.metric
        if tuning.whole or not isinstance(workers, Racers):

            def advance(trials: Sequence[tuple[str, int]], end: int) -> list[Trial]:
                return workers.run(self, [self._trial_job(space, number, end) for space, number in trials])

            return halve(spaces, tuning, epochs, metric, advance)
        found = {}
        for space in spaces:
            jobs = [self._trial_job(space, number, epochs) for number in range(tuning.trials)]
            scratch = trial_folder(self.out, space, 0).with_name(f"{space}-ray")
            reached = workers.race(self, jobs, tuning.rungs(epochs)[0][1], ETA, metric.higher_is_better, scratch)
            found[space] = workers.run(self, [self._trial_job(space, number, end) for number, end in enumerate(reached)])
        return found

    def _trial_job(self, space: str, number: int, epochs: int) -> Job:
        folder = trial_folder(self.out, space, number)
        return Job(f"{space}, trial {number}", folder, epochs, Experiment.try_one, (space, number, epochs))

    def try_one(self, space: str, number: int, epochs: int, progress: Progress | None) -> Trial:
        """A trial up to so many epochs of its schedule; the test part is not looked at."""
        assert self.tuning is not None
        seed = LAST_SEED - self.search.seed
        points = self.tuning.ranges.points(self.tuning.trials, self.search.seed)
        values = matter(points[number], architecture=space not in PLAIN)
        settings = with_values(self.settings_of(space, dataclasses.replace(self.search, seed=seed)), values)
        network = self.network.build(self.task.request, space, seed)
        describe = describe_run(self.identity(), space) | {"trial": number}
        folder = trial_folder(self.out, space, number)
        try:
            with blaming(self.network.backbone):
                history = train_until(epochs, network, self.task.problem, settings, folder, describe=describe, progress=progress)
        except Diverged:
            return Trial(number, values, epochs, None, 0.0)
        best = best_record(history, self.task.problem.metric)
        return Trial(number, values, len(history), best, sum(record.seconds for record in history))
