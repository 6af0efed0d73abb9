"""The user's own arrays, from whatever file holds them: .npz, .h5/.hdf5, .mat (all versions), or a folder of .npy.

Nothing is ever unpickled: an array of Python objects is refused.
"""

import zipfile
from abc import ABC, abstractmethod
from pathlib import Path

import h5py
import numpy as np
import scipy.io

from xdops.errors import XDError

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
                f"array {name!r} of {self.path}",
                f"one of {', '.join(self.names) or 'none: the file is empty'}",
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
        except Exception as error:
            if "pickle" in str(error):
                raise self._refusal(what, "of Python objects (pickled)") from error
            raise XDError(
                f"{self.path}, whose {what} cannot be read ({type(error).__name__}: {error})",
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
        with zipfile.ZipFile(self.path) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]

    def _read(self, name: str) -> np.ndarray:
        with np.load(self.path, allow_pickle=False) as arrays:
            return np.asarray(arrays[name])


class NpyFolder(ArrayFile):
    def _list(self) -> list[str]:
        return sorted(p.stem for p in self.path.glob("*.npy"))

    def _read(self, name: str) -> np.ndarray:
        return np.asarray(np.load(self.path / f"{name}.npy", allow_pickle=False))


class Hdf5File(ArrayFile):
    """Datasets by their path inside the file, "group/x"."""

    def _list(self) -> list[str]:
        names: list[str] = []
        with h5py.File(self.path, "r") as file:
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        return [n for n in names if not n.startswith("#")]  # MATLAB keeps its own book-keeping under #refs#

    def _read(self, name: str) -> np.ndarray:
        with h5py.File(self.path, "r") as file:
            dataset = file[name]
            return np.asarray(dataset.asstr()[()], dtype=str) if h5py.check_string_dtype(dataset.dtype) else np.asarray(dataset[()])


class Mat73File(Hdf5File):
    """MATLAB 7.3 is HDF5 with its dimensions in column-major order."""

    def _read(self, name: str) -> np.ndarray:
        return super()._read(name).T


class MatFile(ArrayFile):
    """MATLAB 5 to 7."""

    def _list(self) -> list[str]:
        return [name for name, *_ in scipy.io.whosmat(self.path)]

    def _read(self, name: str) -> np.ndarray:
        array = scipy.io.loadmat(self.path, variable_names=[name])[name]
        if scipy.sparse.issparse(array):
            array = array.toarray()
        return np.asarray(array)


def open_arrays(path: Path) -> ArrayFile:
    """The file or folder at `path`, by its ending."""
    if not path.exists():
        raise XDError(
            f"{path}, which does not exist", f"a file: {FORMATS}", "check the path; relative paths start at the current folder"
        )
    if path.is_dir():
        folder = NpyFolder(path)
        if not folder.names:
            raise XDError(f"folder {path}, which holds no .npy files", FORMATS, "numpy.save('folder/x.npy', x)")
        return folder
    ending = path.suffix.lower()
    if ending == ".npz":
        return NpzFile(path)
    if ending in (".h5", ".hdf5"):
        return Hdf5File(path)
    if ending == ".mat":
        return Mat73File(path) if h5py.is_hdf5(path) else MatFile(path)
    raise XDError(f"{path}, of an unknown format {ending or '(no ending)'}", FORMATS, "numpy.savez('data.npz', x=x, y=y)")
