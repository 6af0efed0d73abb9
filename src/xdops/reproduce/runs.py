"""What the folder of one (row, seed) holds, and what it says when it is finished.

machine.json         where it is run, and the digest of the search that is the row's
result.json          of a search, with all that `search` keeps beside it
measured.json        of a measurement
judged.json          more about what a search has trained, where the row asks for it
diverged.json        the message of a search whose numbers blew up

Each but the search's own is sealed with the digest of the row's settings and the seed.
"""

import json
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdops.errors import XDError
from xdops.measuring.machine import machine_facts
from xdops.reproduce.table import Row, SearchRow
from xdops.search import SearchResult
from xdops.search.folder import RESULT as SEARCHED
from xdops.search.folder import RUN, read_identity, read_result
from xdops.storage.documents import digest, named_differences, read_sealed, understood, write_sealed

MACHINE, MEASURED, JUDGED, DIVERGED = "machine.json", "measured.json", "judged.json", "diverged.json"
SEARCH = "search"
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
    names = ((folder, re.fullmatch(r"seed(\d+)", folder.name)) for folder in (home / row.folder).glob("seed*"))
    return sorted(int(match[1]) for folder, match in names if match and is_finished(folder))


def read_outcome(home: Path, row: Row, seed: int, metric: str) -> Outcome:
    """metric: the table's name for what a search reports."""
    folder = run_folder(home, row, seed)
    machine = {name: fact for name, fact in _claim(folder, row, seed).items() if name != SEARCH}
    if (folder / DIVERGED).exists():
        found = read_sealed(folder / DIVERGED, "divergence", run_of(row, seed), ANOTHER)
        with understood(folder / DIVERGED):
            return Outcome(seed, {}, float(found["seconds"]), diverged=str(found["message"]), machine=machine)
    if isinstance(row, SearchRow):
        result = searched(folder, row, seed)
        values = {"last": result.test_at_last, "best": result.test_at_best, "novelty": result.history[-1].novelty}
        seconds = sum(r.seconds for r in result.history)
        more: dict[str, Any] = {"values": {}, "examples": {}}
        if (folder / JUDGED).exists():
            more = read_sealed(folder / JUDGED, "judgement", run_of(row, seed), ANOTHER)
        with understood(folder / JUDGED):
            judged = {metric: values[row.report]} | more["values"]
            return Outcome(seed, judged, seconds, None, _facts(result), _curves(result), machine, more["examples"])
    found = read_sealed(folder / MEASURED, "measurement", run_of(row, seed), ANOTHER)
    with understood(folder / MEASURED):
        return Outcome(seed, {k: float(v) for k, v in found["values"].items()}, float(found["seconds"]), machine=machine)


def searched(folder: Path, row: Row, seed: int) -> SearchResult:
    """The result of the row's search with this seed; a whole run of another one in its place is refused."""
    identity = read_identity(folder)
    with understood(folder / RUN):
        told, asked = identity["settings"], {**row.settings.get("search", {}), "seed": seed}
        both = [name for name in asked if name in told]
        differing = named_differences({n: told[n] for n in both}, json.loads(json.dumps({n: asked[n] for n in both})))
    if not differing and _claim(folder, row, seed).get(SEARCH, digest(identity)) != digest(identity):  # older ones say nothing
        differing = f"its {RUN} is not that of {row.label}, seed {seed}"
    if differing:
        raise XDError(f"{folder}, which holds another run ({differing})", "the run of this row and seed", ANOTHER)
    return read_result(folder)


def _claim(folder: Path, row: Row, seed: int) -> dict[str, Any]:
    return read_sealed(folder / MACHINE, "machine", run_of(row, seed), ANOTHER)


def run_of(row: Row, seed: int) -> str:
    """What the files of a run of the row carry."""
    return digest([json.loads(json.dumps(row.settings)), row.label, seed])


def write_measured(folder: Path, row: Row, seed: int, values: dict[str, float], seconds: float) -> None:
    write_sealed(folder / MEASURED, "measurement", run_of(row, seed), {"values": values, "seconds": seconds})


def write_diverged(folder: Path, row: Row, seed: int, message: str, seconds: float) -> None:
    write_sealed(folder / DIVERGED, "divergence", run_of(row, seed), {"message": message, "seconds": seconds})


def judge_run(home: Path, row: Row, seed: int) -> None:
    """Ask for what the row wants to know of a finished run, unless it is known."""
    folder = run_folder(home, row, seed)
    if isinstance(row, SearchRow) and row.judge is not None and not any((folder / n).exists() for n in (JUDGED, DIVERGED)):
        judged = row.judge(folder, seed)
        content = {"values": dict(judged.values), "examples": dict(judged.examples)}
        write_sealed(folder / JUDGED, "judgement", run_of(row, seed), content)


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


def write_machine(folder: Path, row: Row, seed: int, search: dict[str, Any] | None = None) -> None:
    """Where the run is made; times mean nothing without it. search: the identity of the search, if it is one."""
    told = {} if search is None else {SEARCH: digest(search)}
    write_sealed(folder / MACHINE, "machine", run_of(row, seed), machine_facts() | told)
