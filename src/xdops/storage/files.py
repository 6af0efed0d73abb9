"""Writing files that are whole or not there."""

import errno
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from xdops.errors import XDError


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: whoever reads it, whenever the machine stops, sees the old or the new file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            _write(file, data)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(path, len(data), error) from error


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


def disk_error(path: Path, size: int, error: OSError) -> XDError:
    """What a user can do about a disk that refuses to write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return XDError(
            f"a full disk: {path} ({size:,} bytes) could not be written",
            "room for one more checkpoint; the previous checkpoint is intact",
            "free some space, then continue with --resume (resume=True)",
        )
    return XDError(
        f"{path}, which could not be written ({error.strerror or error})",
        "a folder that can be written to",
        "another --out (out=...), or fix its permissions",
    )


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
