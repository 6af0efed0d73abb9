"""The settings of a table's rows on its page: what all share, then what is a method's own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from xdops.report.rows import ResultLine, Results
from xdops.search import OptimizerSettings, SearchSettings

#: As files of results have them.
SEARCH, OPTIMIZER = (json.loads(json.dumps(default)) for default in (SearchSettings().to_dict(), asdict(OptimizerSettings())))
OF_ARCHITECTURE = ("architecture", "warmup", "cooldown")
#: What matters for each schedule.
OF_SCHEDULE = {"step": ("milestones", "factor"), "plateau": ("factor", "patience", "after"), "cosine": ("floor",)}


def settings_list(table: Results) -> str:
    """Of the rows that were run; of one that was chosen, its own settings and among how many it was. Other candidates stand in the
    table of what was tried.
    """
    flat = [(line["method"], flatten(said(line))) for line in table["rows"] if line["seeds"] and line["settings"]]
    keys = list(dict.fromkeys(key for _, values in flat for key in values))
    shared = {key: flat[0][1].get(key) for key in keys if _same([values.get(key) for _, values in flat])}
    lines = [f"- all rows: {spell(shared)}"] if shared else []
    for method in dict.fromkeys(name for name, _ in flat):
        own = [values for name, values in flat if name == method]
        varied = {key: _distinct([values[key] for values in own if key in values]) for key in keys if key not in shared}
        parts = [spell({key: values for key, values in varied.items() if values}), chosen_of(table, method)]
        lines.append(f"- {method}: {'; '.join(filter(None, parts))}")
    lines = [line for line in lines if not line.endswith(": ")]
    return "Settings that have an effect:\n\n" + "\n".join(lines) + "\n" if lines else ""


def said(line: ResultLine) -> Mapping[str, Any]:
    """Without what has no effect: what is switched off, as by default, or about an architecture that is not there."""
    settings = line["settings"]
    search = settings.get("search")
    if not isinstance(search, Mapping):
        return settings
    found: dict[str, Any] = {}
    for key, value in search.items():
        if key in OF_ARCHITECTURE and not line.get("architecture"):
            continue
        if isinstance(value, Mapping) and key in ("weights", "architecture"):
            found[key] = {name: v for name, v in value.items() if name in ("name", "lr") or v != OPTIMIZER.get(name)}
        elif isinstance(value, Mapping) and key == "schedule":
            found[key] = {name: v for name, v in value.items() if name in ("name", *OF_SCHEDULE.get(value.get("name", ""), ()))}
        elif key in ("epochs", "batch_size") or value != SEARCH.get(key):
            found[key] = value
    return {**settings, "search": found}


def chosen_of(table: Results, method: str) -> str:
    """Among how many candidates the method's rows were chosen."""
    counts = {len(line["tried"]) for line in table["rows"] if line["method"] == method and line["seeds"] and line.get("tried")}
    return f"chosen among {' or '.join(map(str, sorted(counts)))} on validation" if counts else ""


def flatten(settings: Mapping[str, Any], at: str = "") -> dict[str, str]:
    """{"weights": {"lr": 0.1}} -> {"weights.lr": "0.1"}"""
    found: dict[str, str] = {}
    for key, value in settings.items():
        name = f"{at}.{key}" if at else key
        found |= (
            flatten(value, name) if isinstance(value, Mapping) else {name: value if isinstance(value, str) else json.dumps(value)}
        )
    return found


def spell(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _same(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _distinct(values: Sequence[str]) -> str:
    return " / ".join(dict.fromkeys(values))
