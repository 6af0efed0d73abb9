"""Writing files that are whole or not there, and knowing before any work is done that they can be written.

A file under way is `.NAME.THREAD.HOST.PID.tmp` beside its place. Whoever is killed leaves it behind; the next start removes what
dead processes left (`sweep`, and whoever writes the same file), and never what a live one is writing.
"""

import errno
import glob
import json
import os
import re
import shutil
import socket
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from xdops.errors import XDError

_TEMPORARY = re.compile(r"\..*\.(?P<host>[^.]*)\.(?P<pid>\d+)\.tmp")
#: What another machine left, whose processes cannot be seen from here, is taken to be dead after this many seconds.
_LONG_AGO = 24 * 3600
#: So few bytes are no matter of room, and often only stand for a file of unknown size.
_PAGE = 4096
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def this_host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "here"


def _temporary(name: str) -> str:
    """A name that no other process and no other thread of this one writes to."""
    return f".{name}.{threading.get_ident()}.{this_host()}.{os.getpid()}.tmp"


@contextmanager
def replacing(path: Path, size: int = 0) -> Iterator[Path]:
    """A temporary path to write to, which becomes `path` in one step, on the disk, when the block ends well.

    Whoever reads `path`, whenever the machine stops, sees the old or the new file. size: what an error says of it.
    """
    _check_replaceable(path)
    temporary = path.with_name(_temporary(path.name))
    _sweep_like(path.name, path.parent)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise disk_error(path, size, error) from error
    finally:
        _remove(temporary)


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step."""
    with replacing(path, len(data)) as temporary, open(temporary, "wb") as file:
        _write(file, data)


def write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=1).encode())


def append_line(path: Path, line: str) -> None:
    """Add one line, on disk when this returns."""
    data = line.encode() + b"\n"
    try:
        with open(path, "ab") as file:
            _write(file, data)
    except OSError as error:
        raise disk_error(path, len(data), error) from error


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(folder, 0, error) from error


class DiskFull(XDError):
    """There was no room for a file."""


def disk_error(path: Path, size: int, error: OSError) -> XDError:
    """What a user can do about a disk that refuses to write."""
    if error.errno in FULL:
        return DiskFull(
            f"a full disk: {path}{f' ({_size(size)})' if size > _PAGE else ''} could not be written",
            "room for it; what was written before is intact",
            "free some space, then do the same again",
        )
    return XDError(
        f"{path}, which could not be written ({error.strerror or error})",
        "a place that can be written to",
        "another place, or fix its permissions",
    )


def check_target(path: Path, needed: int = _PAGE) -> None:
    """Refuse, before any work, a file that could not be written in the end: `needed` bytes are reserved beside it, and given back.

    Folders on the way that do not exist yet are no obstacle; they are not made either.
    """
    _check_replaceable(path)
    if len(os.fsencode(path.name)) > 200:
        raise XDError(f"a file name of {len(os.fsencode(path.name))} bytes", "at most 200", "a shorter name")
    check_room(path.parent, needed)


def _check_replaceable(path: Path) -> None:
    """Refuse what a file must not take the place of: a folder, and a device above all."""
    if "\0" in str(path):
        raise XDError("a file name with a null character", "the name of a file to write", "another name")
    if path.name in ("", "..") or _kind(path) is not None:
        raise XDError(f"{path}, which is {_kind(path) or 'a folder'}", "the name of a file to write", "another name")


def _size(count: int) -> str:
    """12 MB, or bytes where that would say nothing."""
    return f"{count / 1e6:,.0f} MB" if count >= 10_000_000 else f"{count:,} bytes"


def check_room(folder: Path, needed: int) -> None:
    """Refuse a folder, which need not exist yet, that cannot be written to or has no room for `needed` bytes."""
    try:
        existing = _existing(folder)
        if not existing.is_dir():
            raise XDError(f"{folder}, where {existing} is not a folder", "a folder, or the place for one", "another place")
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise XDError(
                f"a disk with {_size(free)} free at {existing}",
                f"{_size(needed) if needed > _PAGE else 'room'} for what will be written",
                "another place, or free some space",
            )
        probe = existing / _temporary("room")
        _sweep_like("room", existing)
        try:
            with open(probe, "xb") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, max(1, needed))  # quotas and limits answer too
        finally:
            _remove(probe)
    except OSError as error:
        raise disk_error(folder, needed, error) from error


@contextmanager
def probing(folder: Path) -> Iterator[Path]:
    """A file in the folder, or in the next one above that exists, for others to look for; it is gone afterwards."""
    probe = _existing(folder).absolute() / _temporary("probe")
    try:
        with open(probe, "xb"):
            yield probe
    except OSError as error:
        raise disk_error(folder, 0, error) from error
    finally:
        _remove(probe)


def _existing(folder: Path) -> Path:
    return next(p for p in (folder, *folder.absolute().parents) if os.path.lexists(p))


def _kind(path: Path) -> str | None:
    """What stands at `path` if it is not a file that can be replaced; None if it is one, or nothing is there."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_error(path, 0, error) from error
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "no regular file but a pipe, socket or device"


def sweep(folder: Path) -> None:
    """Remove, anywhere in the folder, what dead processes left half written. To be called by who holds the folder's lock."""
    _remove_dead(folder.rglob(".*.tmp"))


def _sweep_like(name: str, folder: Path) -> None:
    """Remove what dead processes left of this one file, in a folder that nobody need hold: a user's own, for one."""
    _remove_dead(folder.glob(f".{glob.escape(name)}.*.tmp"))


def _remove_dead(paths: Iterable[Path]) -> None:
    for path in paths:
        if is_temporary(path) and not _alive(path):
            _remove(path)


def is_temporary(path: Path) -> bool:
    """Whether the name is that of a file under way."""
    return _TEMPORARY.fullmatch(path.name) is not None


def _alive(path: Path) -> bool:
    """Whether the process that a temporary file is named after may still be writing it."""
    match = _TEMPORARY.fullmatch(path.name)
    assert match is not None
    if match["host"] != this_host():
        try:
            return time.time() - path.stat().st_mtime < _LONG_AGO
        except OSError:
            return True
    return process_alive(int(match["pid"]))


def process_alive(pid: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's, or Windows, which cannot tell
        return True
    return True


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # the error that is under way says more
        return


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make renames in it durable. Windows has no such call, and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
