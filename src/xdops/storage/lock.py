"""One lock for every kind of run folder. The system lets go of it however its process ends: no lock is ever stale.

`.lock` is held by filelock; `.lock.holder` says who holds it. Both go when the holder is done. Whoever is killed leaves them:
who takes the same folder next removes them, or one above it, as nobody need take that of a run which was finished.
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from xdops.errors import XDError
from xdops.storage.files import disk_error, make_folder, sweep, this_host

LOCK, HOLDER = ".lock", ".lock.holder"
#: Seconds to wait in any case: who removes what a dead process left holds it for a moment.
_MOMENT = 0.25


class Held(XDError):
    """Another process holds the folder."""

    def __init__(self, folder: Path, by: str) -> None:
        self.folder, self.by = folder, by
        super().__init__(f"{folder}, which {by} is using", "a folder that nobody else writes to", "wait for it, or another folder")

    def __reduce__(self) -> tuple[type["Held"], tuple[Path, str]]:  # type: ignore[override]
        return Held, (self.folder, self.by)


@contextmanager
def lock(folder: Path, wait: float = 0) -> Iterator[None]:
    """Hold the folder, made if it is not there; raise Held if another process still does after so many seconds.

    A process may take the same folder several times. Half-written files and locks of dead processes in it are removed. Folders that
    were made for the lock and stayed empty are removed in the end.
    """
    created = [p for p in (folder, *folder.parents) if not p.exists()]
    make_folder(folder)
    try:
        with _held(folder / LOCK, folder / HOLDER, folder, wait) as first:
            if first:
                sweep(folder)
                _sweep_locks(folder)
            yield
    finally:
        _remove_empty(created)


def _remove_empty(folders: list[Path]) -> None:
    """From the innermost on, as far as they are empty."""
    with suppress(OSError):  # somebody has put something there: all the better
        for folder in folders:
            folder.rmdir()


@contextmanager
def lock_file(path: Path, wait: float = 0) -> Iterator[None]:
    """Hold one file of a folder that many processes share; `.NAME.lock` stands beside it meanwhile."""
    with _held(*_marks_of(path), path, wait):
        yield


def sweep_lock_file(path: Path) -> None:
    """Remove what a dead process left that held the file, once there is nothing to hold it for."""
    if any(mark.exists() for mark in _marks_of(path)):
        _let_go(*_marks_of(path), path)


def _marks_of(path: Path) -> tuple[Path, Path]:
    return path.with_name(f".{path.name}{LOCK}"), path.with_name(f".{path.name}{HOLDER}")


def _sweep_locks(folder: Path) -> None:
    """Remove what dead processes left below the folder, in those of runs that nobody will take again."""
    below = {mark.parent for mark in folder.rglob(f"{LOCK}*") if is_lock(mark)} - {folder}
    for one in below:
        _let_go(one / LOCK, one / HOLDER, one)


def _let_go(path: Path, holder: Path, what: Path) -> None:
    """Take it and give it back, which leaves nothing; whoever holds it keeps it."""
    with suppress(XDError), _held(path, holder, what, 0, patient=False):
        pass


def is_lock(path: Path) -> bool:
    return path.name in (LOCK, HOLDER)


def is_held(folder: Path) -> bool:
    """Whether somebody holds the folder, as far as its files tell: enough to show, not to rely on."""
    return (folder / HOLDER).exists()


@contextmanager
def _held(path: Path, holder: Path, what: Path, wait: float, patient: bool = True) -> Iterator[bool]:
    """Yields whether this is the outermost time that the process holds it."""
    one = FileLock(path, is_singleton=True)
    try:
        one.acquire(timeout=-1 if wait == math.inf else max(wait, _MOMENT if patient else 0))
    except Timeout as error:
        raise Held(what, _read_holder(holder)) from error
    except OSError as error:
        raise disk_error(path, 0, error) from error
    first = one.lock_counter == 1
    try:
        if first:
            _write_holder(holder)
        yield first
    finally:
        if first:  # while it is still held: who waits for it notices, and takes the new one
            for mark in (holder, path) if os.name != "nt" else (holder,):
                with suppress(OSError):  # what stands in its place is not ours, and the error under way says so
                    mark.unlink(missing_ok=True)
        one.release()


def _write_holder(path: Path) -> None:
    facts = {"pid": os.getpid(), "host": this_host(), "since": datetime.now().astimezone().isoformat(timespec="seconds")}
    try:
        path.unlink(missing_ok=True)  # a link that somebody has put there would be written through
        with open(path, "x") as file:
            file.write(json.dumps(facts))
    except OSError as error:
        raise disk_error(path, 0, error) from error


def _read_holder(path: Path) -> str:
    """ "process 123 on HOST, since TIME", as far as it is known."""
    try:
        facts = json.loads(path.read_bytes()) if path.is_file() else {}
        return f"process {facts['pid']} on {facts['host']}, since {facts['since']},"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
