"""Files whose parsers are not ours, read by a process that may crash without taking us along (see `xdops.storage.parser`)."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import weakref
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xdops.storage import parser
from xdops.storage.room import room_for_arrays


class ParserFailed(Exception):
    """The file could not be read; says why."""


class ParserRefused(Exception):
    """The file holds something that is never read; says what."""


class ParserTooLarge(ParserRefused):
    """The file holds something that there is no memory for; says what."""


class Parser:
    """The process that reads one file. It ends with this object."""

    def __init__(self, path: Path, kind: str) -> None:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ParserFailed("it is no regular file")
        command = [sys.executable, "-P", str(parser.__file__), str(path.absolute()), kind, str(room_for_arrays())]
        # No filters from elsewhere: HDF5 would load them as libraries.
        environment = os.environ | {"HDF5_PLUGIN_PRELOAD": "::", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        weakref.finalize(self, _end, self._process)

    def names(self) -> list[str]:
        return [str(name) for name in self._ask(None)["names"]]

    def read(self, name: str) -> np.ndarray:
        header = self._ask(name)
        dtype, shape = np.dtype(header["dtype"]), tuple(header["shape"])
        data = bytearray(prod(shape) * dtype.itemsize)
        _fill(self._process.stdout, memoryview(data), self._crashed)  # type: ignore[arg-type]
        return np.frombuffer(data, dtype).reshape(shape)

    def layout(self) -> dict[str, Any]:
        return self._ask(["layout"])["layout"]

    def _ask(self, request: str | list[str] | None) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the answer will be missing, too
            self._process.stdin.write(json.dumps([request, room_for_arrays()]).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._crashed()
        header = json.loads(line)
        for kind, error in (("refused", ParserRefused), ("large", ParserTooLarge), ("failed", ParserFailed)):
            if kind in header:
                raise error(header[kind])
        return header

    def _crashed(self) -> ParserFailed:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ParserFailed(f"it made its parser crash: {how}")


def _fill(stream: BinaryIO, view: memoryview, crashed: Any) -> None:
    at = 0
    while at < len(view):
        count = stream.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise crashed()
        at += count


def _end(process: subprocess.Popen[bytes]) -> None:
    """When nobody needs it any more, where a Ctrl-C could not stop anything: Python would only print its traceback."""
    process.kill()
    for finish in (process.stdin.close, process.stdout.close, process.wait):  # type: ignore[union-attr]
        with contextlib.suppress(OSError, KeyboardInterrupt):
            finish()


def is_hdf5(path: Path) -> bool:
    """By its signature, which stands at 0, 512, 1024, 2048, ..."""
    try:
        with open(path, "rb") as file:
            for at in (0, *(512 << i for i in range(20))):
                file.seek(at)
                if file.read(8) == b"\x89HDF\r\n\x1a\n":
                    return True
    except OSError:
        pass  # whoever reads it next says so
    return False
