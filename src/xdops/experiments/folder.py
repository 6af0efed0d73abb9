"""The folder of an experiment: claimed only when everything else is known to be right, and never shared by two experiments.

settings.json              what was run, with the exact command; sealed with the digest of the experiment's identity. "failed": why
                           it ended before any run was finished; another experiment may then take its place
runs/SPACE-seedN/          one search each, see `xdops.search.folder`; its identity names the experiment that it is part of
tuning/SPACE-N/            trial N of a space, as far as it was trained
tuning/SPACE.json          what was tried and chosen
results.json, report.html  the outcome
"""

from pathlib import Path
from typing import Any

from xdops.errors import XDError
from xdops.search.folder import RESULT
from xdops.storage.documents import digest, named_differences, read_sealed, understood, write_sealed
from xdops.storage.files import is_temporary
from xdops.storage.lock import is_lock
from xdops.storage.mirror import files_of, remove_empty

SETTINGS = "settings.json"
RESULTS = "results.json"
REPORT = "report.html"
RUNS, TUNING = "runs", "tuning"
FAILED = "failed"
_HINT = "another --out"


def run_folder(out: Path, space: str, seed: int) -> Path:
    return out / RUNS / f"{space}-seed{seed}"


def trial_folder(out: Path, space: str, number: int) -> Path:
    return out / TUNING / f"{space}-{number}"


def tuning_path(out: Path, space: str) -> Path:
    return out / TUNING / f"{space}.json"


def read_settings(out: Path) -> dict[str, Any]:
    """settings.json of an experiment, verified."""
    path = out / SETTINGS
    if not path.exists():
        raise XDError(
            f"{out}, which holds no {SETTINGS}", "the --out folder of `xdops search`", "xdops search DATA --out runs/mine"
        )
    settings = read_sealed(path, "settings", hint="the folder as the search left it, or search again")
    with understood(path):
        read_sealed(path, "settings", digest(settings["identity"]))
    return settings


def check_folder(out: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Whether the folder holds this experiment, to be continued. Refuses one that holds something else, another experiment, or this
    one without --resume. Writes nothing.

    One that failed is in nobody's way: what is corrected has other settings, and could never continue it.
    """
    if out.exists() and not out.is_dir():
        raise XDError(f"--out {out}, which is a file", "a folder, new or empty", "--out runs/mine")
    if not out.exists() or all(is_temporary(path) or is_lock(path) for path in out.iterdir()):
        return False  # what a search leaves that was killed before it had written its settings
    if not (out / SETTINGS).exists():
        raise XDError(f"--out {out}, which holds other files", "a new or empty folder, or that of an earlier search", _HINT)
    settings = read_settings(out)
    differing = named_differences(settings["identity"], identity, most=5)
    if differing and FAILED in settings:
        return False
    if differing:
        raise XDError(f"--out {out}, which holds another run ({differing})", "the same configuration, or a new folder", _HINT)
    if not resume:
        raise XDError(
            f"--out {out}, which already holds this run", "--resume, or a new folder", "--resume to continue it, or another --out"
        )
    return True


def write_settings(out: Path, settings: dict[str, Any]) -> None:
    write_sealed(out / SETTINGS, "settings", digest(settings["identity"]), settings)


def note_failure(out: Path, why: str) -> bool:
    """Note that the experiment has failed, so that another may take its place; not if a run is finished, which is worth keeping."""
    if any((out / RUNS).glob(f"*/{RESULT}")):
        return False
    write_settings(out, read_settings(out) | {FAILED: why})
    return True


def remove_failed(out: Path, identity: dict[str, Any]) -> None:
    """The runs that another experiment, which failed, has left in the folder; its settings are replaced afterwards.

    Notes on copies of URLs stay: by them the runs are removed there, too.
    """
    settings = read_settings(out) if (out / SETTINGS).exists() else {}
    if FAILED not in settings or settings["identity"] == identity:
        return
    for part in (out / RUNS, out / TUNING):
        for name in files_of(part):
            (part / name).unlink()
        remove_empty(part)
