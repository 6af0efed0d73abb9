"""The published data of Burgers, Darcy and Navier-Stokes, in the shapes of our own, for those who have the files.

    burgers_data_R10.mat                     a, u: (2048, 8192)
    piececonst_r421_N1024_smooth1.mat        coeff, sol: (1024, 421, 421)
    NavierStokes_V1e-5_N1200_T20.mat         a: (1200, 64, 64), u: (1200, 64, 64, 20)

MATLAB up to version 7 has its own format; 7.3 is HDF5 with the axes in reverse.
"""

from pathlib import Path

import h5py
import numpy as np
import scipy.io

from xdops.errors import XDError

NAMES = (("a", "u"), ("coeff", "sol"))


def read_published(path: Path) -> dict[str, np.ndarray]:
    """`a` and `u`, float32, from a .mat file of any version."""
    if not path.is_file():
        raise XDError(f"{path}, which is not a file", "a published .mat file", "check the path")
    try:
        names, arrays = _read_hdf5(path) if h5py.is_hdf5(path) else _read_matlab(path)
    except Exception as error:  # foreign files fail in as many ways as there are parsers
        raise XDError(
            f"{path}, which cannot be read ({type(error).__name__}: {error})",
            "a whole .mat file",
            "copy it again; a truncated download is the usual cause",
        ) from error
    if not arrays:
        raise XDError(
            f"{path} with {', '.join(names) or 'no arrays'}", " or ".join(f"{a} and {u}" for a, u in NAMES), "a published file"
        )
    _check_shapes(path, *arrays)
    return dict(zip(("a", "u"), arrays, strict=True))


def _read_hdf5(path: Path) -> tuple[list[str], list[np.ndarray]]:
    with h5py.File(path, "r") as file:
        names = [name for name in file if not name.startswith("#")]  # MATLAB keeps its own book-keeping under #refs#
        return names, [np.ascontiguousarray(np.asarray(file[name], dtype=np.float32).T) for name in _wanted(names)]


def _read_matlab(path: Path) -> tuple[list[str], list[np.ndarray]]:
    names = [name for name, *_ in scipy.io.whosmat(path)]
    found = scipy.io.loadmat(path, variable_names=_wanted(names))
    return names, [np.ascontiguousarray(found[name], dtype=np.float32) for name in _wanted(names)]


def _wanted(names: list[str]) -> tuple[str, ...]:
    return next((pair for pair in NAMES if set(pair) <= set(names)), ())


def _check_shapes(path: Path, a: np.ndarray, u: np.ndarray) -> None:
    """(samples, size), (samples, size, size), or the latter with the times of u behind."""
    extra = u.shape[a.ndim :]
    square = len(set(a.shape[1:])) == 1
    if a.ndim not in (2, 3) or not square or u.shape[: a.ndim] != a.shape or len(extra) > a.ndim - 2:
        raise XDError(
            f"{path} with arrays of shapes {a.shape} and {u.shape}",
            "(samples, size) twice, (samples, size, size) twice, or (samples, size, size) and (samples, size, size, times)",
            "a published file",
        )
