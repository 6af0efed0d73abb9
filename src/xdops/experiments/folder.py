"""The folder of an experiment: claimed only when everything else is known to be right, and never shared by two experiments.

settings.json              what was run, with the exact command
runs/SPACE-seedN/          one search each: run.json, metrics.jsonl, tensorboard/, checkpoints/, result.json
results.json, report.html  the outcome
"""

import json
import shutil
from pathlib import Path
from typing import Any

from xdops.errors import XDError
from xdops.storage.files import disk_error, write_json

SETTINGS = "settings.json"
RESULTS = "results.json"
REPORT = "report.html"


def run_folder(out: Path, space: str, seed: int) -> Path:
    return out / "runs" / f"{space}-seed{seed}"


def read_json(path: Path, hint: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise XDError(f"{path}, which cannot be read ({error})", "a file that `xdops search` wrote", hint) from error
    if not isinstance(value, dict):
        raise XDError(f"{path}, which holds no settings", "a file that `xdops search` wrote", hint)
    return value


def check_folder(out: Path, identity: dict[str, Any], resume: bool) -> None:
    """Refuse a folder that holds something else, another experiment, or this one without --resume. Writes nothing."""
    if out.exists() and not out.is_dir():
        raise XDError(f"--out {out}, which is a file", "a folder, new or empty", "--out runs/mine")
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / SETTINGS).exists():
        raise XDError(
            f"--out {out}, which holds other files", "a new or empty folder, or that of an earlier search", "another --out"
        )
    earlier = read_json(out / SETTINGS, "another --out")["identity"]
    differing = differences(earlier, json.loads(json.dumps(identity)))
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise XDError(f"--out {out}, which holds another run ({shown})", "the same configuration, or a new folder", "another --out")
    if not resume:
        raise XDError(
            f"--out {out}, which already holds this run", "--resume, or a new folder", "--resume to continue it, or another --out"
        )


def differences(old: Any, new: Any, at: str = "") -> list[str]:
    """Where two pieces of JSON data differ, as `a.b: was 1, is 2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(set(old) | set(new)):
            found += differences(old.get(key), new.get(key), f"{at}.{key}" if at else key)
        return found
    return [] if old == new else [f"{at}: was {_short(old)}, is {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def claim_folder(out: Path, settings: dict[str, Any], needed: int) -> None:
    """Make the folder and write settings.json; leave nothing behind if there is no room for `needed` bytes."""
    existing = next(p for p in (out, *out.absolute().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise XDError(
            f"a disk with {free / 1e6:,.0f} MB free at {existing}",
            f"{needed / 1e6:,.0f} MB for the checkpoints",
            "another --out, or free some space",
        )
    created = [p for p in (out, *out.parents) if not p.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / SETTINGS, settings)
    except (OSError, XDError) as error:
        for folder in created:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise disk_error(out, 0, error) if isinstance(error, OSError) else error from error
