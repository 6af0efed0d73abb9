"""results/TABLE-SCALE.json: all that is known of a table, read from its runs; pages and pictures are made from it alone."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdops.reproduce.earlier import distinct, keep
from xdops.reproduce.runs import Outcome, finished_seeds, read_outcome
from xdops.reproduce.table import CurvesFigure, Row, Table
from xdops.storage.documents import read_json, understood, with_digest, without_digest
from xdops.storage.files import make_folder, write_file

WROTE = "a file that `xdops reproduce` wrote"
#: Points of a stored curve, and their digits: enough for a picture.
POINTS, DIGITS = 200, 4


def results_path(results: Path, table: str, scale: str) -> Path:
    return results / f"{table}-{scale}.json"


def write_results(table: Table, scale: str, rows: Sequence[Row], home: Path, results: Path, command: str) -> dict[str, Any]:
    """Read every finished run and replace the table's results, but for rows and seeds of which only these know: made elsewhere."""
    collected, path = collect(table, scale, rows, home, command), results_path(results, table.name, scale)
    earlier = read_earlier(table, scale, results)
    if earlier is not None:
        with understood(path, WROTE, "delete it"):
            keep(collected, earlier)
    make_folder(results)
    write_file(path, to_json(collected).encode())
    return collected


def read_earlier(table: Table, scale: str, results: Path) -> dict[str, Any] | None:
    """The table's results that are there, verified; None if there are none."""
    path = results_path(results, table.name, scale)
    return read_verified(path) if path.exists() else None


def read_verified(path: Path) -> dict[str, Any]:
    """A table's results without their digests: the rows have one each, so that those of two files can be put together."""
    found = read_json(path, WROTE, "delete it")
    with understood(path, WROTE, "delete it"):
        head = without_digest(path, {key: value for key, value in found.items() if key != "rows"}, hint="delete it")
        if path.stem != f"{head['table']}-{head['scale']}":
            raise ValueError(f"it holds table {head['table']!r} at scale {head['scale']!r}")
        return head | {"rows": [without_digest(path, row, path.stem, "delete it") for row in found["rows"]]}


def to_json(collected: dict[str, Any]) -> str:
    """A line per entry and per row: what has changed is seen at once."""
    about = f"{collected['table']}-{collected['scale']}"
    rows = ",\n  ".join(json.dumps(with_digest(row, about)) for row in collected["rows"])
    head = with_digest({key: value for key, value in collected.items() if key != "rows"})
    others = [f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()]
    return "{\n" + "".join(others) + f' "rows": [\n  {rows}\n ]\n}}\n'


def collect(table: Table, scale: str, rows: Sequence[Row], home: Path, command: str) -> dict[str, Any]:
    outcomes = [[read_outcome(home, row, seed, table.metric) for seed in finished_seeds(home, row)] for row in rows]
    machines = [outcome.machine for row in outcomes for outcome in row]
    return {
        "format": 1,
        "table": table.name,
        "scale": scale,
        "title": table.title,
        "where": table.where,
        "metric": table.metric,
        "lower_is_better": table.lower_is_better,
        "higher": list(table.higher),
        "percent": table.percent,
        "note": table.notes.get(scale, ""),
        "command": command + _other_seeds(rows, outcomes),
        "machines": distinct(machines),
        "figures": [figure.to_dict() for figure in table.figures],
        "rows": [line for row, found in zip(rows, outcomes, strict=True) for line in _lines(table, row, found)],
    }


def _other_seeds(rows: Sequence[Row], outcomes: Sequence[Sequence[Outcome]]) -> str:
    """What the command needs besides, if there are runs of seeds that the table does not ask for."""
    found = {o.seed for row in outcomes for o in row}
    asked = {seed for row in rows for seed in row.seeds}
    return f" --seeds {' '.join(map(str, sorted(found | asked)))}" if found - asked else ""


def _lines(table: Table, row: Row, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One line per metric that the row has, or that the paper has for it."""
    good = [o for o in outcomes if o.diverged is None]
    paper = {table.metric: row.paper} if row.paper is None or isinstance(row.paper, int | float) else dict(row.paper)
    metrics = list(dict.fromkeys([*(m for o in good for m in o.values), *paper])) or [table.metric]
    return [_line(table, row, metric, paper.get(metric), outcomes, good) for metric in metrics]


def _line(
    table: Table, row: Row, metric: str, paper: float | None, outcomes: Sequence[Outcome], good: Sequence[Outcome]
) -> dict[str, Any]:
    values = [o.values[metric] for o in good if metric in o.values]
    line: dict[str, Any] = {
        "method": row.method,
        "setting": dict(row.setting),
        "metric": metric,
        "mean": statistics.fmean(values) if values else None,
        "spread": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
        "seeds": [o.seed for o in good],
        "planned": list(row.seeds),
        "diverged": {str(o.seed): o.diverged for o in outcomes if o.diverged is not None},
        "paper": paper,
        "paper_hours": row.hours,
        "source": row.source,
        "seconds": sum(o.seconds for o in outcomes),
        **{name: _mean([o.facts[name] for o in good]) for name in (good[0].facts if good else ())},
        "settings": dict(row.settings),
    }
    if outcomes:
        line["machines"] = distinct([o.machine for o in outcomes])
    if row.tried:
        line |= {"tried": dict(row.tried), "chosen": row.chosen}
    if metric == table.metric and any(o.examples for o in good):
        line["examples"] = _mean_examples([o.examples for o in good])
    if good and any(isinstance(f, CurvesFigure) and matches(row.setting, f.where) for f in table.figures):
        line["curves"] = {name: _mean_curve([o.curves[name] for o in good]) for name in good[0].curves}
    return line


def _mean(values: Sequence[float]) -> float:
    """Numbers of parameters stay whole."""
    return values[0] if len(set(values)) == 1 else statistics.fmean(values)


def _mean_examples(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """The metric on each test example, the mean over the seeds that tested it."""
    names = list(dict.fromkeys(name for examples in found for name in examples))
    means = {name: statistics.fmean(e[name] for e in found if name in e) for name in names}
    return {name: float(f"{value:.{DIGITS}g}") for name, value in sorted(means.items())}


def matches(setting: Any, where: Any) -> bool:
    return all(setting.get(key) == value for key, value in where.items())


def _mean_curve(curves: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The mean over seeds at evenly spread epochs, the last one included."""
    mean = [statistics.fmean(values) for values in zip(*curves, strict=False)]
    every = -(-len(mean) // POINTS)
    epochs = list(range(len(mean), 0, -every))[::-1]
    return {"epoch": epochs, "value": [float(f"{mean[e - 1]:.{DIGITS}g}") for e in epochs]}
