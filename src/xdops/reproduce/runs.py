"""What the folder of one (row, seed) holds, and what it says when it is finished.

lock, machine.json   who runs it, and where
result.json          of a search, with all that `search` keeps beside it
measured.json        of a measurement
judged.json          more about what a search has trained, where the row asks for it
diverged.json        the message of a search whose numbers blew up
"""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdops.experiments.folder import read_json
from xdops.measuring.machine import machine_facts
from xdops.reproduce.table import Row, SearchRow
from xdops.search import SearchResult
from xdops.storage.files import write_json

MACHINE, SEARCHED, MEASURED, JUDGED, DIVERGED = "machine.json", "result.json", "measured.json", "judged.json", "diverged.json"
ANOTHER = "another --out"


@dataclass(frozen=True)
class Outcome:
    """A finished run. values: by metric, none if it diverged."""

    seed: int
    values: dict[str, float]
    seconds: float  # training, or measuring
    diverged: str | None = None
    facts: dict[str, float] = field(default_factory=dict)  # numbers beside the metric, by name
    curves: dict[str, list[float]] = field(default_factory=dict)  # by epoch
    machine: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, float] = field(default_factory=dict)  # the metric by test example


def run_folder(home: Path, row: Row, seed: int) -> Path:
    return home / row.folder / f"seed{seed}"


def is_finished(folder: Path) -> bool:
    return any((folder / name).exists() for name in (SEARCHED, MEASURED, DIVERGED))


def finished_seeds(home: Path, row: Row) -> list[int]:
    """Every seed of the row that is finished, asked for or not."""
    folders = (home / row.folder).glob("seed*")
    return sorted(int(folder.name.removeprefix("seed")) for folder in folders if is_finished(folder))


def read_outcome(home: Path, row: Row, seed: int, metric: str) -> Outcome:
    """metric: the table's name for what a search reports."""
    folder = run_folder(home, row, seed)
    machine = read_json(folder / MACHINE, ANOTHER)
    if (folder / DIVERGED).exists():
        found = read_json(folder / DIVERGED, ANOTHER)
        return Outcome(seed, {}, found["seconds"], diverged=found["message"], machine=machine)
    if isinstance(row, SearchRow):
        result = SearchResult.from_dict(read_json(folder / SEARCHED, ANOTHER))
        values = {"last": result.test_at_last, "best": result.test_at_best, "novelty": result.history[-1].novelty}
        seconds = sum(r.seconds for r in result.history)
        more = read_json(folder / JUDGED, ANOTHER) if (folder / JUDGED).exists() else {"values": {}, "examples": {}}
        found = {metric: values[row.report]} | more["values"]
        return Outcome(seed, found, seconds, None, _facts(result), _curves(result), machine, more["examples"])
    found = read_json(folder / MEASURED, ANOTHER)
    return Outcome(seed, found["values"], found["seconds"], machine=machine)


def judge_run(home: Path, row: Row, seed: int) -> None:
    """Ask for what the row wants to know of a finished run, unless it is known."""
    folder = run_folder(home, row, seed)
    if isinstance(row, SearchRow) and row.judge is not None and not any((folder / n).exists() for n in (JUDGED, DIVERGED)):
        judged = row.judge(folder, seed)
        write_json(folder / JUDGED, {"values": dict(judged.values), "examples": dict(judged.examples)})


def _facts(result: SearchResult) -> dict[str, float]:
    return {
        "seconds_per_epoch": result.seconds_per_epoch,
        "epochs": len(result.history),
        "weights": result.weights,
        "architecture": result.architecture,
        "novelty": statistics.fmean(result.novelty.values()) if result.novelty else 0.0,
    }


def _curves(result: SearchResult) -> dict[str, list[float]]:
    return {
        "train": [r.train_loss for r in result.history],
        "held out": [r.validation_metric for r in result.history],
        "novelty": [r.novelty for r in result.history],
    }


def write_machine(folder: Path) -> None:
    """Where the run is made; times mean nothing without it."""
    write_json(folder / MACHINE, machine_facts())
