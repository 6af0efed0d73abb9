"""Which candidate of a tuned row is the best on validation, and what of the row is left to run."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdops.reproduce.runs import DIVERGED, is_finished, run_folder, searched
from xdops.reproduce.table import Row, SearchRow, TunedRow
from xdops.search import SearchResult
from xdops.search.folder import read_result


def settle(home: Path, row: Row, known: Mapping[str, Any] | None = None) -> Row:
    """The row itself; of a tuned row the chosen candidate, or nothing but its name while candidates are still to be trained.

    known: the row's line in earlier results, whose choice holds until all candidates are trained here.
    """
    if not isinstance(row, TunedRow):
        return row
    tried = validations(home, row)
    scores = {name: value for name, value in tried.items() if value is not None}
    if len(tried) == len(row.candidates) and scores:
        best = (max if _higher_is_better(home, row) else min)(scores, key=lambda name: scores[name])
        return dataclasses.replace(row.candidates[best], tried=tried, chosen=best)
    if known is not None:
        return dataclasses.replace(row.candidates[known["chosen"]], tried=known["tried"], chosen=known["chosen"])
    return Row(method=row.method, setting=row.setting, seeds=row.seeds, settings=row.settings, paper=row.paper, hours=row.hours)


def validations(home: Path, row: TunedRow) -> dict[str, float | None]:
    """Every candidate that is trained on validation, at the epoch whose test metric counts; None where it diverged."""
    found: dict[str, float | None] = {}
    for name, candidate in row.candidates.items():
        folder = run_folder(home, candidate, row.seeds[0])
        if (folder / DIVERGED).exists():
            found[name] = None
        elif is_finished(folder):
            found[name] = validation(searched(folder, candidate, row.seeds[0]), candidate)
    return found


def validation(result: SearchResult, row: SearchRow) -> float:
    """What a candidate is compared by."""
    record = result.history[result.best_epoch - 1 if row.report == "best" else -1]
    return record.validation_loss if row.chosen_by == "loss" else record.validation_metric


def _higher_is_better(home: Path, row: TunedRow) -> bool:
    if any(candidate.chosen_by == "loss" for candidate in row.candidates.values()):
        return False
    folders = (run_folder(home, candidate, row.seeds[0]) for candidate in row.candidates.values())
    return next(read_result(folder).higher_is_better for folder in folders if not (folder / DIVERGED).exists())


def parts_of(row: Row) -> list[Row]:
    """The rows that have runs of their own: the candidates of a tuned row, or the row itself."""
    return list(row.candidates.values()) if isinstance(row, TunedRow) else [row]


def to_run(home: Path, row: Row, seeds: Sequence[int], known: Mapping[str, Any] | None = None) -> list[tuple[Row, tuple[int, ...]]]:
    """What a row consists of, with the seeds that can be run now: of a tuned row first every candidate, later the chosen one.

    known: the row's line in earlier results, whose seeds and candidates are not run again.
    """
    if known is not None:
        return [(settle(home, row, known), tuple(seed for seed in seeds if seed not in known["seeds"]))]
    if not isinstance(row, TunedRow):
        return [(row, tuple(seeds))]
    settled = settle(home, row)
    candidates: list[tuple[Row, tuple[int, ...]]] = [(candidate, row.seeds[:1]) for candidate in row.candidates.values()]
    return [*candidates, (settled, tuple(seeds))] if isinstance(settled, SearchRow) else candidates
