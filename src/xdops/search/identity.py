"""Which run a folder holds, and how another one differs from it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import nn

from xdops.errors import XDError
from xdops.search.problem import Problem
from xdops.search.settings import SearchSettings


def identify(network: nn.Module, problem: Problem, settings: SearchSettings, describe: dict[str, Any] | None) -> dict[str, Any]:
    """Everything that two runs must share for one to continue the other, as JSON data."""
    layout = [(k, list(getattr(v, "shape", ()))) for k, v in network.state_dict().items()]
    identity = {
        "format": 1,
        "settings": settings.to_dict(),
        "describe": describe or {},
        "network": {
            "class": type(network).__name__,
            "parameters": sum(p.numel() for p in network.parameters()),
            "layout": hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16],
        },
        "data": problem.signature(),
        "metric": problem.metric.name,
    }
    try:
        return json.loads(json.dumps(identity))
    except (TypeError, ValueError) as error:
        raise XDError(
            f"a description of the run that is not plain data ({error})", "JSON data", "describe={'space': 'xd'}"
        ) from error


def check_folder(out: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Whether the folder holds this run, to be continued. Refuses any other."""
    path = out / "run.json"
    if not path.exists():
        if (out / "checkpoints").exists() and any((out / "checkpoints").iterdir()):
            raise XDError(
                f"{out}, which holds checkpoints but no run.json", "a new folder, or a whole run", "another --out (out=...)"
            )
        return False
    if not resume:
        raise XDError(
            f"{out}, which already holds a run", "a new folder", "another --out (out=...), or --resume (resume=True) to continue it"
        )
    try:
        there = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise XDError(f"{path}, which cannot be read ({error})", "the run.json of a search", "another --out (out=...)") from error
    differing = differences(there, identity)
    if differing:
        shown = "; ".join(differing[:6]) + (f"; and {len(differing) - 6} more" if len(differing) > 6 else "")
        raise XDError(
            f"a run of another configuration in {out}: {shown}",
            "the same settings, network and data",
            "the settings in run.json, or another --out",
        )
    return True


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Each differing entry as "settings.weights.lr is 0.1 there, 0.01 here"."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = [*there, *(k for k in here if k not in there)]
        return [d for k in keys for d in differences(there.get(k), here.get(k), f"{name}.{k}" if name else k)]
    return [] if there == here else [f"{name} is {there!r} there, {here!r} here"]
