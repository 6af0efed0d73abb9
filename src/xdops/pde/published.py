"""The published data of Burgers, Darcy and Navier-Stokes, in the shapes of our own, for those who have the files.

    burgers_data_R10.mat                     a, u: (2048, 8192)
    piececonst_r421_N1024_smooth1.mat        coeff, sol: (1024, 421, 421)
    NavierStokes_V1e-5_N1200_T20.mat         a: (1200, 64, 64), u: (1200, 64, 64, 20)

MATLAB up to version 7 has its own format; 7.3 is HDF5 with the axes in reverse.
"""

from pathlib import Path

import numpy as np

from xdops.errors import XDError
from xdops.storage.foreign import Parser, ParserFailed, ParserRefused, is_hdf5

NAMES = (("a", "u"), ("coeff", "sol"))


def read_published(path: Path) -> dict[str, np.ndarray]:
    """`a` and `u`, float32, from a .mat file of any version."""
    if not path.is_file():
        raise XDError(f"{path}, which is not a file", "a published .mat file", "check the path")
    try:
        parser = Parser(path, "mat73" if is_hdf5(path) else "mat")
        names = parser.names()
        arrays = [np.ascontiguousarray(parser.read(name), dtype=np.float32) for name in _wanted(names)]
    except (ParserFailed, ParserRefused) as error:
        raise XDError(
            f"{path}, which cannot be read ({error})",
            "a whole .mat file",
            "copy it again; a truncated download is the usual cause",
        ) from error
    if not arrays:
        raise XDError(
            f"{path} with {', '.join(names) or 'no arrays'}", " or ".join(f"{a} and {u}" for a, u in NAMES), "a published file"
        )
    _check_shapes(path, *arrays)
    return dict(zip(("a", "u"), arrays, strict=True))


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
