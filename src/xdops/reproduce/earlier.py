"""What a table's results already know of a row, and how it is put together with runs that are made here.

Runs of one row may be made on several machines, each with a folder of its own: results are all that they share.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from xdops.reproduce.table import Row

#: Numbers of a line that are means over its seeds.
MEANS = ("seconds_per_epoch", "epochs", "weights", "architecture", "novelty")

EarlierLine = dict[str, Any]


def earlier_line(earlier: EarlierLine, row: Mapping[str, Any]) -> EarlierLine | None:
    """The line of the earlier results with the row's method, setting, metric and settings, if it has a seed.

    Settings are those that the earlier line has: later versions know more of them. A row that has chosen among candidates is the
    same if it would choose among as many, and the chosen one is among them.
    """
    lines = (line for line in earlier["rows"] if line["seeds"] and _name(line) == _name(row))
    return next((line for line in lines if _same_settings(line, row["settings"])), None)


def line_of(earlier: EarlierLine | None, row: Row) -> EarlierLine | None:
    """The same for a row of the table, by the table's own metric."""
    if earlier is None or not row.seeds:
        return None
    return earlier_line(earlier, {**vars(row), "metric": earlier["metric"]})


def keep(collected: EarlierLine, earlier: EarlierLine) -> None:
    """Put earlier lines in the place of those without a run here, and together with the others. Of a seed the newer run counts."""
    where = {"machines": earlier["machines"]} if len(earlier["machines"]) == 1 else {}  # of rows that do not tell it themselves
    for i, line in enumerate(collected["rows"]):
        old = earlier_line(earlier, line)
        if old is None:
            continue
        shown = {name: line[name] for name in ("paper", "paper_hours", "planned")}
        made = line["seeds"] or line["diverged"]
        kept: EarlierLine = together(where | old, line) if made else where | old | shown
        collected["rows"][i] = kept
        collected["machines"] = distinct(collected["machines"] + kept.get("machines", earlier["machines"]))


def together(old: EarlierLine, new: EarlierLine) -> EarlierLine:
    """One line with the seeds of both. Of a seed that both have the new one counts."""
    if any(len(line["values"]) != len(line["seeds"]) for line in (old, new)):  # a metric that some runs do not have
        return new
    left = {
        s: v for s, v in zip(old["seeds"], old["values"], strict=True) if s not in new["seeds"] and str(s) not in new["diverged"]
    }
    if not left:
        return new
    if not new["seeds"]:
        new = {
            **old,
            **{name: new[name] for name in ("paper", "paper_hours", "planned", "seconds", "machines", "diverged")},
            "seeds": [],
            "values": [],
        }
    by_seed = sorted((left | dict(zip(new["seeds"], new["values"], strict=True))).items())
    values = [value for _, value in by_seed]
    share = len(left) / len(values)

    def mean(a: float, b: float) -> float:
        """Numbers of parameters stay whole."""
        return a if a == b else share * a + (1 - share) * b

    line = {
        **new,
        "mean": statistics.fmean(values),
        "spread": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
        "seeds": [seed for seed, _ in by_seed],
        "diverged": {s: text for s, text in old["diverged"].items() if int(s) not in new["seeds"]} | new["diverged"],
        "seconds": old["seconds"] * len(left) / len(old["seeds"]) + new["seconds"],
        **{name: mean(old[name], new[name]) for name in MEANS if name in old and name in new},
        "machines": distinct([*old.get("machines", ()), *new.get("machines", ())]),
    }
    if "examples" in old and "examples" in new:
        both = old["examples"] | new["examples"]
        line["examples"] = {e: mean(old["examples"].get(e, v), new["examples"].get(e, v)) for e, v in sorted(both.items())}
    if "curves" in old and "curves" in new:
        line["curves"] = {name: _mean_curve(old["curves"].get(name), curve, mean) for name, curve in new["curves"].items()}
    return line


def _mean_curve(old: Any, new: Any, mean: Any) -> Any:
    if old is None or old["epoch"] != new["epoch"]:
        return new
    return {"epoch": new["epoch"], "value": [mean(a, b) for a, b in zip(old["value"], new["value"], strict=True)]}


def distinct(machines: Sequence[EarlierLine]) -> list[EarlierLine]:
    return [m for i, m in enumerate(machines) if m not in machines[:i]]


def _name(line: Mapping[str, Any]) -> str:
    return json.dumps([line["method"], dict(line["setting"]), line["metric"]])


def _same_settings(old: EarlierLine, settings: Mapping[str, Any]) -> bool:
    if "candidates" not in settings:
        return _within(old["settings"], settings)
    candidates = settings["candidates"]
    return old.get("tried", {}).keys() == candidates.keys() and _within(old["settings"], candidates[old["chosen"]])


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return bool(part) and all(key in whole and _within(value, whole[key]) for key, value in part.items())
    return bool(json.loads(json.dumps(part)) == json.loads(json.dumps(whole)))
