"""Runs `xdops` as a user would, many times a second: one warm process, a fork per command."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ending:
    code: int
    out: str
    err: str


class Commands:
    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "120"}
        environment.pop("XDOPS_DATA", None)
        server = Path(__file__).with_name("command_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline()) == "ready"

    def run(self, argv: list[str], cwd: Path, **options: Any) -> Ending:
        """The command's ending. Options: see `command_server.py`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        words = [word if isinstance(word, str) else str(word) for word in argv]
        self.process.stdin.write(json.dumps({"argv": words, "cwd": str(cwd), **options}) + "\n")
        self.process.stdin.flush()
        return Ending(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its size and time of change: equal before and after means that nothing was written.

    But for the bytecode of a user's own modules, which is Python's.
    """
    found, folders = {}, [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == "__pycache__":
                    continue
                status = entry.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(status.st_mode)
                found[os.path.relpath(entry.path, folder)] = (status.st_size, status.st_mtime_ns) if is_file else (0, 0)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return found


def assert_refused(ending: Ending, message: str = "") -> None:
    """Exit code 2 and one clear line."""
    import re

    assert ending.code == 2, ending
    assert ending.err.count("\n") == 1, ending.err
    assert ending.err.startswith("xdops: given "), ending.err
    assert "; expected " in ending.err, ending.err
    assert "; try: " in ending.err, ending.err
    assert re.search(message, ending.err), ending.err
