"""The user's own arrays, from whatever file holds them: .npz, .h5/.hdf5, .mat (all versions), or a folder of .npy.

Nothing is ever unpickled: an array of Python objects is refused.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

import numpy as np

from xdops.arguments import checked
from xdops.errors import XDError, listed
from xdops.storage.foreign import Parser, ParserFailed, ParserRefused, ParserTooLarge, is_hdf5
from xdops.storage.npy import read_member, read_npy, zip_members
from xdops.storage.room import room_for_arrays

FORMATS = ".npz, .h5, .hdf5, .mat, or a folder of .npy files"


class ArrayFile(ABC):
    """Named arrays in one place. `names` lists them; `read` brings one into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names = self._guarded("list of arrays", self._list)

    def read(self, name: str) -> np.ndarray:
        """One array, numbers or strings; missing names are answered with what is there."""
        if name not in self.names:
            raise XDError(
                f"{self.path} without an array {name!r}",
                f"one of {listed(self.names) if self.names else 'none: the file is empty'}",
                "--x-name, --y-name",
            )
        array = self._guarded(f"array {name!r}", lambda: self._read(name))
        if array.dtype.kind not in "biufcUS":
            raise self._refusal(f"array {name!r}", f"of type {array.dtype}")
        return array

    @abstractmethod
    def _list(self) -> list[str]: ...

    @abstractmethod
    def _read(self, name: str) -> np.ndarray: ...

    def _guarded(self, what: str, action):  # type: ignore[no-untyped-def]
        """Foreign files fail in as many ways as there are parsers; all of them mean the same to the user."""
        try:
            return action()
        except XDError:
            raise
        except MemoryError as error:
            raise XDError(f"{self.path}, whose {what} does not fit into memory", "less", "fewer examples") from error
        except Exception as error:
            if "pickle" in str(error):
                raise self._refusal(what, "of Python objects (pickled)") from error
            why = str(error) if isinstance(error, ParserFailed) else f"{type(error).__name__}: {error}"
            raise XDError(
                f"{self.path}, whose {what} cannot be read ({why})",
                f"a complete, valid file: {FORMATS}",
                "copy or save it again; a truncated download is the usual cause",
            ) from error

    def _refusal(self, which: str, what: str) -> XDError:
        return XDError(
            f"{which} of {self.path}, {what}",
            "arrays of numbers (or of strings, for class names); files are never unpickled",
            "save plain arrays, e.g. numpy.savez(path, x=x.astype('float32'), y=y)",
        )


class NpzFile(ArrayFile):
    def _list(self) -> list[str]:
        return zip_members(self.path)

    def _read(self, name: str) -> np.ndarray:
        return read_member(self.path, name)


class NpyFolder(ArrayFile):
    def _list(self) -> list[str]:
        return sorted(p.stem for p in self.path.glob("*.npy"))

    def _read(self, name: str) -> np.ndarray:
        path = self.path / f"{name}.npy"
        check_regular(path)
        with open(path, "rb") as file:
            return read_npy(file, path.stat().st_size, f"array {name!r} of {self.path}")


class ForeignFile(ArrayFile):
    """HDF5, with datasets by their path inside the file, "group/x", and MATLAB: parsed in a process of their own."""

    def __init__(self, path: Path, kind: Literal["hdf5", "mat73", "mat"]) -> None:
        self._parser = Parser(path, kind)
        super().__init__(path)

    def _list(self) -> list[str]:
        return self._parser.names()

    def _read(self, name: str) -> np.ndarray:
        try:
            return self._parser.read(name)
        except ParserTooLarge as large:
            room = f"at most {room_for_arrays() / 1e9:,.1f} GB, a third of the memory that is free"
            raise XDError(f"array {name!r} of {self.path}, {large}", room, "fewer examples, or a coarser grid") from large
        except ParserRefused as refused:
            raise self._refusal(f"array {name!r}", str(refused)) from refused


def check_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, which may never end."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe, a socket or a device"
        raise XDError(f"{path}, which is {what}", f"a regular file: {FORMATS}", "save it to a file first")


@checked
def open_arrays(path: Path) -> ArrayFile:
    """The file or folder at `path`, by its ending."""
    path = Path(path)
    try:
        found = path.exists()
    except OSError as error:  # a name that is too long, a loop of links
        raise XDError(f"{path}, which cannot be opened ({error.strerror})", f"a file: {FORMATS}", "check the path") from error
    if not found:
        raise XDError(
            f"{path}, which does not exist", f"a file: {FORMATS}", "check the path; relative paths start at the current folder"
        )
    if path.is_dir():
        folder = NpyFolder(path)
        if not folder.names:
            raise XDError(f"folder {path}, which holds no .npy files", FORMATS, "numpy.save('folder/x.npy', x)")
        return folder
    check_regular(path)
    ending = path.suffix.lower()
    if ending == ".npz":
        return NpzFile(path)
    if ending in (".h5", ".hdf5"):
        return ForeignFile(path, "hdf5")
    if ending == ".mat":
        return ForeignFile(path, "mat73" if is_hdf5(path) else "mat")
    raise XDError(f"{path}, of an unknown format {ending or '(no ending)'}", FORMATS, "numpy.savez('data.npz', x=x, y=y)")
