"""A table is a list of rows; a row is a method at one setting, run once per seed, beside the paper's figure."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

from xdops.search import Problem, SearchSettings

Value = str | int | float


@dataclass(frozen=True)
class Context:
    """What rows are made from. data_dir: where data are, or are to be put; None: the default place."""

    scale: str
    data_dir: Path | None = None


@dataclass(frozen=True)
class Prepared:
    """One run of a SearchRow, ready to start."""

    problem: Problem
    network: nn.Module  # the relaxed network of this seed
    settings: SearchSettings  # its seed is set to that of the run
    describe: dict[str, Any]  # JSON data that identifies the network


@dataclass(frozen=True)
class Sketch:
    """A run on a few random examples of the right shape, for its cost. examples: how many the real one trains on."""

    prepared: Prepared
    examples: int


@dataclass(frozen=True)
class Judged:
    """More about a finished run. values: by metric; examples: the table's metric on each test example, by the example's name."""

    values: Mapping[str, float]
    examples: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table at one scale.

    settings: JSON data, everything that determines the outcome but the seed; other settings are another run, in another folder.
    paper: the paper's figure, if it has one for this very setting; by metric where a row measures several. No seeds: only the
    paper's figure is shown. hours: what a run of it took there, on a V100. source: whose figure it is where the paper quotes others
    ("Li et al. 2021"). tried: on validation, the metric or loss of every candidate of which this is the one that was chosen, None
    where it diverged.
    """

    method: str  # "CNN XD"
    setting: Mapping[str, Value]  # {"resolution": 256}
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    paper: float | Mapping[str, float] | None = None
    hours: float | None = None
    source: str = ""
    tried: Mapping[str, float | None] = field(default_factory=dict)
    chosen: str = ""

    @property
    def label(self) -> str:
        """CNN XD, resolution 256"""
        return ", ".join([self.method, *(f"{k} {v}" for k, v in self.setting.items())])

    @property
    def slug(self) -> str:
        """cnn-xd-resolution-256: what --rows selects by."""
        return slug(self.label)

    @property
    def folder(self) -> str:
        """The slug and a digest of the settings."""
        text = json.dumps(self.settings, sort_keys=True)
        return f"{self.slug}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, kw_only=True)
class SearchRow(Row):
    """A search per seed. report: the test metric after the last epoch (nothing is selected) or at the best validation epoch, or how
    far the operations are from where they started after the last epoch. chosen_by: what candidates are compared by on validation,
    the loss where the metric alone can be had cheaply. judge(folder of the run, seed): more about what was
    trained, asked for once when a run is finished; its values come in addition, or in the place of the reported one. sketch: what
    `xdops plan` measures where the data of the row are not there, and would take long to make. makes_data: prepare makes them, for
    minutes; where it does not, data that are missing are refused before the run is announced.
    """

    prepare: Callable[[int], Prepared]
    report: Literal["last", "best", "novelty"]
    chosen_by: Literal["metric", "loss"] = "metric"
    judge: Callable[[Path, int], Judged] | None = None
    sketch: Callable[[], Sketch] | None = None
    makes_data: bool = False


@dataclass(frozen=True, kw_only=True)
class TunedRow(Row):
    """A search of which several settings are tried. All are trained with the first seed; the one that is best on validation
    there is trained with the other seeds too, and it alone is reported. candidates: by what sets them apart.
    """

    candidates: Mapping[str, SearchRow]


def chosen_among(candidates: Mapping[str, SearchRow]) -> Row:
    """The row of which these are the candidates, itself if it is the only one: they share all but their settings."""
    first, *others = candidates.values()
    if not others:
        return first
    settings = {"candidates": {name: row.settings for name, row in candidates.items()}}
    return TunedRow(
        method=first.method,
        setting=first.setting,
        seeds=first.seeds,
        settings=settings,
        paper=first.paper,
        hours=first.hours,
        source=first.source,
        candidates=candidates,
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredRow(Row):
    """Whatever is not a search: measure(seed) -> one number per metric."""

    measure: Callable[[int], dict[str, float]]


def quoted(
    method: str, setting: Mapping[str, Value], paper: float | Mapping[str, float], source: str = "", hours: float | None = None
) -> Row:
    """A row of the paper that is not run here: its own, or one that it quotes."""
    name = f"{method} ({source})" if source else method
    return Row(method=name, setting=setting, seeds=(), settings={}, paper=paper, hours=hours, source=source)


def with_the_rest(rows: Sequence[Row], paper: Sequence[Row]) -> list[Row]:
    """`rows`, then those of the paper that are not among them."""
    there = {(row.method, tuple(row.setting.items())) for row in rows}
    return [*rows, *(row for row in paper if (row.method, tuple(row.setting.items())) not in there)]


@dataclass(frozen=True)
class LineFigure:
    """The metric against the setting `x`, a line with its spread per method, the paper's dashed. where: settings of its rows."""

    x: str
    title: str = ""
    where: Mapping[str, Value] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "line", **vars(self), "where": dict(self.where)}


@dataclass(frozen=True)
class CurvesFigure:
    """Training (dotted) and held-out (solid) curves by epoch, a colour per method. where: settings of its rows. held_out: which
    part it is, "validation" where a table has one of its own.
    """

    where: Mapping[str, Value]
    title: str = ""
    held_out: str = "test"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "curves", **vars(self), "where": dict(self.where)}


@dataclass(frozen=True)
class NoveltyFigure(CurvesFigure):
    """Distance of the operations from their start by epoch, a line per row. where: settings of its rows."""

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"kind": "novelty"}


@dataclass(frozen=True)
class PairedFigure:
    """Two methods example by example, each a point. where: the setting of both rows."""

    new: str
    base: str
    where: Mapping[str, Value]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "paired", **vars(self), "where": dict(self.where), "title": ""}


@dataclass(frozen=True)
class Table:
    """One table or figure of the paper.

    where: its place there, e.g. "Figure 3 left, Table 8". percent: values, the paper's too, are shares to be shown in percent.
    notes: per scale, what is smaller than in the paper. lower_is_better: None where neither is; higher:
    metrics of which more is better all the same. runs: the table whose runs are
    used, if they are not its own.
    """

    name: str
    title: str
    where: str
    metric: str
    rows: Callable[[Context], Sequence[Row]]
    lower_is_better: bool | None = True
    higher: tuple[str, ...] = ()
    percent: bool = False
    figures: tuple[LineFigure | CurvesFigure | PairedFigure, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    runs: str = ""

    @property
    def has_own_runs(self) -> bool:
        return self.runs in ("", self.name)


def slug(text: str) -> str:
    """Lower case letters, digits, dots and dashes; wildcards stay."""
    return re.sub(r"[^a-z0-9.*?\[\]]+", "-", text.lower()).strip("-")
