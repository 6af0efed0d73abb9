"""A file that one process holds at a time. The system lets go of it however that process ends: no lock is ever stale."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

if os.name == "nt":
    import msvcrt

    def _hold(file: BinaryIO, wait: bool) -> None:
        file.seek(1 << 20)  # beyond the text, which others may read
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        file.seek(0)
else:
    import fcntl

    def _hold(file: BinaryIO, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


class Held(Exception):
    """Another process holds it."""

    def __init__(self, by: str) -> None:
        super().__init__(f"held by process {by}")
        self.by = by


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the file; if another process does, wait for it or raise Held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        try:
            _hold(file, wait)
        except OSError as error:
            file.seek(0)
            raise Held(file.read().decode(errors="replace").strip() or "unknown") from error
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield
