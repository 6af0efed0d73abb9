"""numpy's own files, .npy and .npz: nothing is unpickled, and sizes are checked before there is room made for them."""

import struct
import zipfile
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from xdops.errors import XDError
from xdops.storage.room import LEAST, check_room_for


def zip_members(path: Path) -> list[str]:
    """Names of the arrays in an .npz. One name twice is refused: which would be meant?"""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError) as error:
        raise XDError(f"{path}, which cannot be read as .npz ({error})", "a complete .npz file", "copy or save it again") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise XDError(f"{path} with several arrays {', '.join(map(repr, twice))}", "one of each name", "save it again")
    return names


def read_member(path: Path, name: str) -> np.ndarray:
    """One array of an .npz."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        return read_npy(member, archive.getinfo(f"{name}.npy").file_size, f"array {name!r} of {path}")


def read_npy(file: IO[bytes], size: int, what: str) -> np.ndarray:
    """An array from a file of `size` bytes; ValueError if its header cannot be right."""
    shape, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("pickled objects")
    if min(shape, default=0) < 0 or prod(shape) * max(1, dtype.itemsize) > size:
        raise ValueError(f"its header says shape {shape} of {dtype}, but there are {size:,} bytes")
    check_room_for(what, shape, max(LEAST, dtype.itemsize))
    file.seek(0)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype that a .npy file announces; ValueError if it is none."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = reader(file)
    except Exception as error:  # a header is Python text, and what is none makes tokenizer and parser fail in many ways
        raise ValueError(f"its header is damaged ({type(error).__name__}: {error!s:.100})") from error
    return shape, dtype
