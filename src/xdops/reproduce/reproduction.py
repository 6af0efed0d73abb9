"""Run a table: every (row, seed) that is not finished yet, first all rows of the first seed, each in a folder of its own.

OUT/TABLE-SCALE/ROW-DIGEST/row.json    what the row is
OUT/TABLE-SCALE/ROW-DIGEST/seedN/      one run, see `xdops.reproduce.runs`

Whatever stops it, the same call continues: finished runs are kept, the one that was running resumes. Several processes
may share a table: each run is locked by whoever runs it.
"""

import dataclasses
import glob
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from xdops.errors import XDError
from xdops.reproduce.collect import read_earlier, write_results
from xdops.reproduce.earlier import line_of
from xdops.reproduce.runs import (
    ANOTHER,
    finished_seeds,
    is_finished,
    judge_run,
    read_outcome,
    run_folder,
    write_diverged,
    write_machine,
    write_measured,
)
from xdops.reproduce.table import Context, MeasuredRow, Row, SearchRow, Table, TunedRow, slug
from xdops.reproduce.tuning import parts_of, settle, to_run
from xdops.search import Diverged, Progress, Silent, search
from xdops.search.distributed import under_torchrun
from xdops.search.identity import identify
from xdops.storage.documents import digest, named_differences, read_sealed, understood, write_sealed
from xdops.storage.files import check_room
from xdops.storage.lock import Held, lock
from xdops.workers import Job, Workers

ROW = "row.json"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """A table to be run. patterns, seeds: only these rows and seeds, if given; missing: only seeds that the results do not have, by
    the settings that were chosen there. Results are always written of all that is there.
    """

    table: Table
    context: Context
    out: Path
    results: Path
    command: str
    patterns: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    missing: bool = False

    @property
    def home(self) -> Path:
        """The folder of the table's runs."""
        return self.out / f"{self.table.runs or self.table.name}-{self.context.scale}"

    def run(self, tell: Report, progress: Callable[[], Progress | None]) -> dict[str, Any]:
        """All runs that are left; returns the table's results. Raises Interrupted with everything saved."""
        if under_torchrun():
            raise XDError(
                "reproduce under torchrun", "one process that starts the others by itself", "the command without torchrun"
            )
        rows, chosen = self._begin(tell)
        while any(self._pass(rows, self._left(chosen), tell, progress)):
            pass  # all candidates are trained: next come the other seeds of the chosen ones
        return self.collect(rows)

    def run_on(self, workers: Workers, tell: Report) -> dict[str, Any]:
        """The same with several runs at a time; what is measured is still measured here, one after the other, in the end."""
        rows, chosen = self._begin(tell)
        made = [True]
        while any(made):
            searches = [(row, seed) for row, seed in self._left(chosen) if isinstance(row, SearchRow)]
            made = workers.run(self, [self._job(name_of(rows, row, seed), row, seed) for row, seed in searches])
            self.collect(rows)
        self._pass(rows, self._left(chosen), tell, Silent)
        return self.collect(rows)

    def _job(self, name: str, row: SearchRow, seed: int) -> Job:
        epochs = int(row.settings.get("search", {}).get("epochs", 1))
        return Job(name, self._folder(row, seed), epochs, Reproduction.run_alone, (row.folder, seed))

    def run_alone(self, name: str, seed: int, progress: Progress | None) -> bool:
        """In a worker: the run of the row whose folder has this name. Whether it was made here, and not by another process."""
        row = next(part for row in self.rows() for part in parts_of(row) if part.folder == name)
        folder = self._folder(row, seed)
        try:
            with lock(folder):
                if is_finished(folder):
                    return False
                self._run_one(row, seed, folder, lambda: progress, announce=lambda: None, tell=lambda line: None)
        except Held:
            return False
        return True

    def _begin(self, tell: Report) -> tuple[list[Row], list[Row]]:
        """All rows, and those that are to be run, whose folders are there now."""
        rows = self.rows()
        chosen = select(rows, self.patterns)
        self._earlier()  # which would be refused in the end
        self._check_folders(chosen, tell)
        return rows, chosen

    def _left(self, rows: Sequence[Row]) -> list[tuple[Row, int]]:
        """What can be run now and is not finished."""
        earlier = self._earlier() if self.missing else None
        ordered = in_order(self.home, rows, self.seeds, earlier)
        return [(row, seed) for row, seed in ordered if not is_finished(self._folder(row, seed))]

    def _earlier(self) -> dict[str, Any] | None:
        return read_earlier(self.table, self.context.scale, self.results)

    def _pass(
        self, rows: Sequence[Row], runs: Sequence[tuple[Row, int]], tell: Report, progress: Callable[[], Progress | None]
    ) -> list[bool]:
        """Which of the runs were made here: another process may have made one, or be at it."""
        return [
            self._attempt(rows, runs[i:], f"[{i + 1}/{len(runs)}] {name_of(rows, row, seed)}", tell, progress)
            for i, (row, seed) in enumerate(runs)
        ]

    def _attempt(
        self,
        rows: Sequence[Row],
        runs: Sequence[tuple[Row, int]],
        name: str,
        tell: Report,
        progress: Callable[[], Progress | None],
    ) -> bool:
        """Make the first of the runs, unless another process does."""
        row, seed = runs[0]
        folder = self._folder(row, seed)
        try:
            with lock(folder):
                if is_finished(folder):
                    return False
                left = self._time_left(rows, runs)
                announced = name + (f"; about {left} left in all" if left else "")
                self._run_one(row, seed, folder, progress, lambda: tell(announced), tell)
        except Held as held:
            tell(f"{name}: left to {held.by} which is running it")
            return False
        self.collect(rows)
        return True

    def rows(self) -> list[Row]:
        """Every row of the table, told apart by method and setting."""
        rows = list(self.table.rows(self.context))
        if not rows:
            raise XDError(f"table {self.table.name} at scale {self.context.scale}", "a scale that it has", "xdops reproduce --list")
        slugs = [row.slug for row in rows]
        assert len(set(slugs)) == len(slugs), f"rows of table {self.table.name} with equal method and setting"
        return rows

    def collect(self, rows: Sequence[Row]) -> dict[str, Any]:
        earlier = self._earlier()
        settled = [settle(self.home, row, line_of(earlier, row)) for row in rows]
        for row in settled:
            for seed in finished_seeds(self.home, row):
                judge_run(self.home, row, seed)
        with lock(self.home, wait=math.inf):
            return write_results(self.table, self.context.scale, settled, self.home, self.results, self.command)

    def _folder(self, row: Row, seed: int) -> Path:
        return run_folder(self.home, row, seed)

    def _check_folders(self, rows: Sequence[Row], tell: Report) -> None:
        """Refuse what cannot be continued; say which rows have runs of other settings, which are kept and not used."""
        check_room(self.home, 1 << 20)
        check_room(self.results, 1 << 20)
        every = [part for row in rows for part in parts_of(row)]
        folders = {part.folder for part in every}
        for row in every:
            path, settings = self.home / row.folder / ROW, json.loads(json.dumps(row.settings))
            if path.exists():
                read_sealed(path, "row", digest(settings), ANOTHER)
                continue
            for other in sorted(self.home.glob(f"{glob.escape(row.slug)}-????????/{ROW}")):
                if other.parent.name in folders:
                    continue
                with understood(other, hint=ANOTHER):
                    changed = named_differences(read_sealed(other, "row", hint=ANOTHER)["settings"], settings, most=4)
                tell(f"{row.label}: other settings than in {other.parent} ({changed}), which is left as it is")

    def _claim(self, row: Row, seed: int, search: dict[str, Any] | None = None) -> None:
        """Say in the folders of the row and of the run what they are for. search: the identity of a search."""
        settings = json.loads(json.dumps(row.settings))
        facts = {"method": row.method, "setting": dict(row.setting), "settings": settings}
        write_sealed(self.home / row.folder / ROW, "row", digest(settings), facts)
        write_machine(self._folder(row, seed), row, seed, search)

    def _run_one(
        self,
        row: Row,
        seed: int,
        folder: Path,
        progress: Callable[[], Progress | None],
        announce: Callable[[], None],
        tell: Report,
    ) -> None:
        """Nothing is announced and nothing written before the data are known to be there, or to be made here."""
        started = time.monotonic()
        if isinstance(row, MeasuredRow):
            announce()
            values = {name: float(value) for name, value in row.measure(seed).items()}
            self._claim(row, seed)
            write_measured(folder, row, seed, values, time.monotonic() - started)
            return
        assert isinstance(row, SearchRow)
        if row.makes_data:
            announce()
        prepared = row.prepare(seed)
        if not row.makes_data:
            announce()
        settings = dataclasses.replace(prepared.settings, seed=seed)
        self._claim(row, seed, identify(prepared.network, prepared.problem, settings, prepared.describe))
        try:
            search(
                prepared.network,
                prepared.problem,
                settings,
                folder,
                resume=True,
                describe=prepared.describe,
                progress=progress(),
            )
        except Diverged as error:
            write_diverged(folder, row, seed, error.given, time.monotonic() - started)
            tell(f"{row.label}, seed {seed} diverged: {error}")

    def _time_left(self, rows: Sequence[Row], runs: Sequence[tuple[Row, int]]) -> str:
        """From finished runs: of the same row if there are any, of all rows otherwise."""
        times: dict[str, list[float]] = {row.slug: [] for row in rows}
        for part in (part for row in rows for part in parts_of(row)):
            times[part.slug] += [read_outcome(self.home, part, s, "").seconds for s in finished_seeds(self.home, part)]
        every = [seconds for found in times.values() for seconds in found]
        if not every:
            return ""
        return duration(sum(statistics.fmean(times[row.slug] or every) for row, _ in runs))


def name_of(rows: Sequence[Row], part: Row, seed: int) -> str:
    """CNN, resolution 256, step size 0.001, seed 0: what sets a candidate apart is part of its name."""
    candidates = (item for row in rows if isinstance(row, TunedRow) for item in row.candidates.items())
    apart = [name for name, candidate in candidates if candidate.folder == part.folder]
    return ", ".join([part.label, *apart, f"seed {seed}"])


def in_order(home: Path, rows: Sequence[Row], seeds: Sequence[int], earlier: dict[str, Any] | None = None) -> list[tuple[Row, int]]:
    """All rows of the first seed, then all of the second: a table that is stopped early is whole with fewer seeds.

    earlier: results whose seeds are not run again.
    """
    asked = [(row, seeds if seeds and row.seeds else row.seeds) for row in rows]
    wanted = [part for row, of_row in asked for part in to_run(home, row, of_row, line_of(earlier, row))]
    longest = max((len(of_row) for _, of_row in wanted), default=0)
    runs = [(row, of_row[i]) for i in range(longest) for row, of_row in wanted if i < len(of_row)]
    return list({(row.folder, seed): (row, seed) for row, seed in runs}.values())


def select(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """The rows that one of the patterns names: whole words of the slug, or a glob for all of it."""
    chosen = [row for row in rows if not patterns or any(_names(pattern, row.slug) for pattern in patterns)]
    if not chosen:
        raise XDError(
            f"--rows {' '.join(patterns)}, which names no row",
            f"words or globs of {', '.join(row.slug for row in rows)}",
            f"--rows {rows[0].slug}",
        )
    return chosen


def _names(pattern: str, name: str) -> bool:
    pattern = slug(pattern)
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(name, pattern)
    return bool(pattern) and f"-{pattern}-" in f"-{name}-"


def duration(seconds: float) -> str:
    """2 h 05 min, 12 min, 40 s"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
