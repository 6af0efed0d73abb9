"""Settings of every space chosen with the same budget: the same points are tried, most of them given up early, on validation.

Successive halving: all trials are trained for a ninth of the epochs, the better third of them for a third, the best of those to the
end, each on the schedule of the whole length. Of these the best on validation is chosen. The test part is not looked at.

What learns fast at first is not always best in the end: large step sizes shine when the schedule has brought them down. Where there
is time, all trials are trained to the end instead.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path
from typing import Any

from xdops.arguments import check_fields
from xdops.errors import XDError
from xdops.experiments.ranges import Ranges
from xdops.search import EpochRecord, Metric
from xdops.search.loop import beats
from xdops.storage.documents import make_sense, read_sealed, write_sealed

#: At each rung one in this many trials goes on, for this many times as long.
ETA = 3
MOST_TRIALS = 10_000


@dataclass(frozen=True)
class Tuning:
    """What is tried for every space alike."""

    trials: int
    ranges: Ranges
    whole: bool = False  # all are trained to the end

    def __post_init__(self) -> None:
        check_fields(self)
        if not 2 <= self.trials <= MOST_TRIALS:
            raise XDError(f"--trials {self.trials}", f"0, or from 2 to {MOST_TRIALS:,}", "--trials 16")

    def to_dict(self) -> dict[str, Any]:
        return {"trials": self.trials, "ranges": self.ranges.to_dict(), "whole": self.whole}

    def rungs(self, epochs: int) -> list[tuple[int, int]]:
        """How many trials are trained up to how many epochs: (16, 3), (6, 7), (2, 20) for 16 trials of 20 epochs."""
        ends = [epochs] if self.whole else sorted({-(-epochs // ETA**2), -(-epochs // ETA), epochs})
        return [(-(-self.trials // ETA**i), end) for i, end in enumerate(ends)]

    def epochs(self, epochs: int) -> int:
        """What a space may spend in all."""
        rungs = self.rungs(epochs)
        before = [0, *(end for _, end in rungs)]
        return sum(count * (end - start) for (count, end), start in zip(rungs, before, strict=False))


@dataclass(frozen=True)
class Trial:
    """One setting of a space, as far as it was trained."""

    number: int
    values: dict[str, float]
    epochs: int
    best: EpochRecord | None  # its best epoch on validation; None if its numbers blew up
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Trial":
        return cls(**data | {"best": None if data["best"] is None else EpochRecord(**data["best"])})


@dataclass(frozen=True)
class Tuned:
    """All trials of a space, and which of them was chosen."""

    trials: tuple[Trial, ...]
    chosen: int

    @property
    def values(self) -> dict[str, float]:
        return self.trials[self.chosen].values

    @property
    def epochs(self) -> int:
        return sum(trial.epochs for trial in self.trials)

    @property
    def seconds(self) -> float:
        return sum(trial.seconds for trial in self.trials)

    def write(self, path: Path, experiment: str) -> None:
        content = {"trials": [trial.to_dict() for trial in self.trials], "chosen": self.chosen}
        write_sealed(path, "tuning", experiment, content)

    @classmethod
    def read(cls, path: Path, experiment: str) -> "Tuned":
        """experiment: the digest of the experiment that it belongs to."""
        return make_sense(path, read_sealed(path, "tuning", experiment), cls._from_dict)

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> "Tuned":
        trials = tuple(Trial.from_dict(trial) for trial in data["trials"])
        if not 0 <= data["chosen"] < len(trials):
            raise ValueError(f"trial {data['chosen']} of {len(trials)}")
        return cls(trials, data["chosen"])


def halve(
    spaces: Sequence[str],
    tuning: Tuning,
    epochs: int,
    metric: Metric,
    advance: Callable[[Sequence[tuple[str, int]], int], Sequence[Trial]],
) -> dict[str, list[Trial]]:
    """Successive halving in every space, rung by rung; all trials by space.

    advance(trials, epochs): train these (space, number) until so many epochs are done.
    """
    trials: dict[tuple[str, int], Trial] = {}
    alive = [(space, number) for space in spaces for number in range(tuning.trials)]
    for count, end in tuning.rungs(epochs):
        if trials:
            ranked = {space: best_first([trials[at] for at in alive if at[0] == space], metric) for space in spaces}
            alive = [(space, number) for space in spaces for number in sorted(ranked[space][:count])]
        trials |= zip(alive, advance(alive, end), strict=True)
    return {space: [trials[space, number] for number in range(tuning.trials)] for space in spaces}


def best_record(history: Sequence[EpochRecord], metric: Metric) -> EpochRecord:
    best = history[0]
    for record in history[1:]:
        best = record if beats(record, best, metric) else best
    return best


def best_first(trials: Sequence[Trial], metric: Metric) -> list[int]:
    """Numbers of the trials, the best on validation first; those that blew up last, in order."""

    def order(one: Trial, other: Trial) -> int:
        return int(better(other, one, metric)) - int(better(one, other, metric))

    return [trial.number for trial in sorted(trials, key=cmp_to_key(order))]


def better(trial: Trial, other: Trial, metric: Metric) -> bool:
    if trial.best is None or other.best is None:
        return other.best is None and trial.best is not None
    return beats(trial.best, other.best, metric)


def choose(space: str, trials: Sequence[Trial], metric: Metric) -> Tuned:
    """The best on validation of those that were trained longest without their numbers blowing up."""
    whole = [trial for trial in trials if trial.best is not None]
    if not whole:
        raise XDError(
            f"{space}, whose numbers blew up in every trial",
            "settings that it can be trained with",
            "--ranges FILE with smaller step sizes, the rest of the command as it was",
        )
    longest = max(trial.epochs for trial in whole)
    return Tuned(tuple(trials), best_first([trial for trial in whole if trial.epochs == longest], metric)[0])
