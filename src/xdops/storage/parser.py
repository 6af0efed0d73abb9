"""Reads .h5 and .mat files in a process of its own: `python parser.py FILE KIND ROOM`, with KIND hdf5, mat73, mat or cells.

Their parsers are C code that a damaged file can crash. A request is a JSON line on stdin, [WHAT, ROOM], where WHAT is null for the
list of arrays, the name of one, or ["layout"] for where the arrays of a file of ours lie. The answer is a JSON line on stdout, for
an array followed by its bytes. This file imports nothing of xdops, so that it starts quickly. ROOM: bytes that an array may take in
the beginning, and now that others may have been read.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

#: Array, or the reason why it is refused.
Answer = tuple[dict[str, Any], np.ndarray | None]


class Refused(Exception):
    """What a file must not hold."""


class TooLarge(Exception):
    """What there is no memory for."""


def check_size(shape: tuple[int, ...], itemsize: int, room: int, which: str = "") -> None:
    """At least 4 bytes are counted for a value: what is trained on has 32 bits, whatever the file has."""
    size = prod(shape) * max(4, itemsize)
    if size > room:
        raise TooLarge(f"{which}of shape {tuple(shape)}, {size / 1e9:,.1f} GB, for which there is no memory")


def list_hdf5(path: str) -> list[str]:
    import h5py

    def walk(group: Any, above: str, groups: tuple[Any, ...]) -> Iterator[str]:
        for name in group:
            full = f"{above}{name}"
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                continue  # another name for what is listed anyway
            if isinstance(link, h5py.ExternalLink) or group.get(name, getclass=True) is h5py.Dataset:
                yield full
            elif group.get(name, getclass=True) is h5py.Group and len(groups) < 32:
                inner = group[name]
                if all(inner != other for other in groups):
                    yield from walk(inner, f"{full}/", (*groups, inner))

    with h5py.File(path, "r") as file:
        names = walk(file, "", (file["/"],))
        return [n for n in names if not n.startswith("#")]  # MATLAB keeps its own book-keeping under #refs#


def read_hdf5(path: str, name: str, room: int) -> np.ndarray:
    import h5py

    with h5py.File(path, "r") as file:
        above = file
        for part in name.split("/")[:-1]:
            above = _inside(above, part, h5py)[part]
        dataset = _inside(above, name.split("/")[-1], h5py)[name.split("/")[-1]]
        if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
            raise Refused("which holds no numbers")
        if dataset.external or dataset.is_virtual:
            raise Refused("whose values are in other files, which are never opened")
        check_size(dataset.shape, dataset.dtype.itemsize, room)
        check_size(dataset.chunks or (), dataset.dtype.itemsize, room, "in pieces ")  # they are unpacked as a whole
        if h5py.check_string_dtype(dataset.dtype):
            return np.asarray(dataset.asstr()[()], dtype=str)
        return np.asarray(dataset[()])


def _inside(group: Any, name: str, h5py: Any) -> Any:
    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        raise Refused("which is a link to another file, and never followed")
    return group


def layout(path: str) -> dict[str, Any]:
    """The description in a file of ours, and where in it each array lies in one piece."""
    import h5py

    with h5py.File(path, "r") as file:
        arrays = {}
        for name in ("a", "u", "checksum", "done"):
            link = file.get(name, getlink=True)
            item = file[name] if isinstance(link, h5py.HardLink) else None
            if isinstance(item, h5py.Dataset) and not item.external and item.id.get_offset() is not None:
                arrays[name] = {"offset": item.id.get_offset(), "dtype": item.dtype.str, "shape": item.shape}
        written = file.attrs.get("xdops")
        return {"description": written if isinstance(written, str) else None, "arrays": arrays}


def check_whole(path: str) -> None:
    """Refuse a file of MATLAB 5 to 7 that ends within an array: its parser lists what comes before, and misses the rest silently.

    After 128 bytes, of which the last two tell the order of bytes, follow arrays: type, number of bytes, those bytes.
    """
    with open(path, "rb") as file:
        orders = {b"IM": "little", b"MI": "big"}
        order: Any = orders.get(file.read(128)[126:])
        size, end = os.fstat(file.fileno()).st_size, 128
        while order and end < size:
            file.seek(end + 4)
            end += 8 + int.from_bytes(file.read(4), order)
    if order and end != size:
        raise ValueError(f"the file ends at byte {size:,}, within an array that ends at byte {end:,}")


def list_mat(path: str) -> list[str]:
    import scipy.io

    check_whole(path)
    return [name for name, *_ in scipy.io.whosmat(path)]


def read_mat(path: str, name: str, room: int) -> np.ndarray:
    import scipy.io
    import scipy.sparse

    for other, shape, kind in scipy.io.whosmat(path):
        if other == name and kind != "sparse":
            check_size(shape, 8 if kind in ("double", "int64", "uint64") else 4, room)
    array = scipy.io.loadmat(path, variable_names=[name])[name]
    if scipy.sparse.issparse(array):
        check_size(array.shape, array.dtype.itemsize, room)
        array = array.toarray()
    return np.asarray(array)


@lru_cache(maxsize=1)  # there is one file per process
def cells(path: str) -> dict[str, np.ndarray]:
    """Every entry of every cell array as NAME/NUMBER, other arrays by their names."""
    import scipy.io

    check_whole(path)
    found = {}
    for name, array in scipy.io.loadmat(path).items():
        if isinstance(array, np.ndarray) and array.dtype == object:
            found.update({f"{name}/{i}": np.asarray(cell) for i, cell in enumerate(array.reshape(-1))})
        elif isinstance(array, np.ndarray):
            found[name] = array
    return found


KINDS: dict[str, tuple[Callable[[str], list[str]], Callable[[str, str, int], np.ndarray]]] = {
    "hdf5": (list_hdf5, read_hdf5),
    "mat73": (list_hdf5, lambda path, name, room: read_hdf5(path, name, room).T),  # MATLAB 7.3: HDF5, column-major
    "mat": (list_mat, read_mat),
    "cells": (lambda path: list(cells(path)), lambda path, name, room: cells(path)[name]),
}


def answer(path: str, kind: str, name: str | list[str] | None, room: int) -> Answer:
    listing, reading = KINDS[kind]
    try:
        if name is None:
            return {"names": listing(path)}, None
        if isinstance(name, list):
            return {"layout": layout(path)}, None
        array = reading(path, name, room)
        if array.dtype.kind not in "biufcUS":
            raise Refused(f"of type {array.dtype}")
        array = np.asarray(array, order="C").astype(array.dtype.newbyteorder("="), copy=False)
    except Refused as refused:
        return {"refused": str(refused)}, None
    except TooLarge as large:
        return {"large": str(large)}, None
    except MemoryError:
        return {"large": "for which there is no memory"}, None
    except Exception as error:  # foreign files fail in as many ways as there are parsers
        return {"failed": f"{type(error).__name__}: {error}"}, None
    return {"dtype": array.dtype.str, "shape": array.shape}, array


def limit(room: int) -> None:
    """No core dumps, since a crash is expected now and then; no parser that never ends or takes all memory."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, 1800), (resource.RLIMIT_AS, 2 * room + (4 << 30))):
        soft, hard = resource.getrlimit(what)
        bounds = [value for value in (most, soft, hard) if value != resource.RLIM_INFINITY]
        resource.setrlimit(what, (min(bounds), hard))


def main(path: str, kind: str, room: str) -> None:
    limit(int(room))
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    for line in sys.stdin:
        what, room_now = json.loads(line)
        header, array = answer(path, kind, what, room_now)
        channel.write(json.dumps(header).encode() + b"\n")
        if array is not None:
            channel.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        channel.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
