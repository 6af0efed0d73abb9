"""A file of samples that fills up chunk by chunk, survives being killed, and is whole when it is finished.

It is HDF5 with arrays `a` and `u`, float32, one CRC-32 per sample, and as attribute `xdops` a JSON text with the format, the kind
and all settings. Its structure is written once, with the arrays laid out in one piece each but empty, and closed. Samples then go
straight to their places and are marked as done, so that a process killed at any moment leaves a file FILE.part that opens and says
how far it came. When all are done it is renamed to FILE, or for .npz copied into it.
"""

import errno
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from xdops.errors import XDError
from xdops.storage.files import check_target, make_folder, replacing
from xdops.storage.foreign import Parser
from xdops.storage.lock import lock_file, sweep_lock_file
from xdops.storage.npy import read_member, zip_members

SUFFIXES = (".npz", ".h5")

NamedArrays = dict[str, np.ndarray]
SamplesDone = Callable[[int, int], None]  # samples done, of how many
Make = Callable[[range], tuple[Any, Any]]  # the samples of these indices, a and u


def fill(path: Path, description: str, samples: int, chunk: int, make: Make, progress: SamplesDone | None = None) -> None:
    """Make the file, or continue where the last process stopped. A file of another description is never overwritten."""
    check_store(path, 0)
    part = _part(path)
    tell: SamplesDone = progress if progress is not None else lambda done, of: None
    make_folder(path.parent)
    with lock_file(path, wait=math.inf):
        if path.exists():  # another process may have made it while this one waited
            return
        done, places = _continued(part, description) if part.exists() else (0, {})
        for start in range(done - done % chunk, samples, chunk):
            tell(start, samples)
            indices = range(start, min(start + chunk, samples))
            a, u = (np.ascontiguousarray(x, dtype="<f4") for x in make(indices))
            _check_finite(a, u, start)
            with _disk_errors(path):
                if not part.exists():
                    places = _lay_out(part, description, samples, a.shape[1:], u.shape[1:])
                _put(part, places, indices, a, u)
        tell(samples, samples)
        with _disk_errors(path):
            _finish(part, path)


def tidy(path: Path, description: str) -> None:
    """Remove what a process left that was killed when the file was there already: its lock, and what it was made from."""
    part = _part(path)
    if part.exists():
        with suppress(XDError, OSError), lock_file(path):  # of another description it is not ours to remove
            _continued(part, description)
            part.unlink()
    sweep_lock_file(path)


def check_store(path: Path, needed: int) -> None:
    """Refuse, before any work, a file that could not be written, or for whose `needed` bytes there is no room."""
    if path.suffix not in SUFFIXES:
        raise XDError(str(path), f"a file name that ends in {' or '.join(SUFFIXES)}", f"{_stem(path)}.npz")
    both = 2 if path.suffix == ".npz" else 1  # copied when all samples are there
    check_target(path, 4096 if _part(path).exists() else both * needed)


def _stem(path: Path) -> str:
    """The name without what may have been meant as its ending: b for b.npz.part."""
    while path.suffix and path.with_suffix("").suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.stem or "data"


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def read(path: Path, description: str | None = None) -> tuple[str, NamedArrays]:
    """Description and arrays of a finished file, every sample checked; refused if its description is another than this one.

    Arrays of .h5 files are views of the file: what is not used is not loaded, and what is changed stays in memory.
    """
    if not path.is_file():
        raise XDError(str(path), "a file that xdops data wrote", "check the path; relative paths start at the current folder")
    with _foreign_files(path):
        written, arrays, sums = _open_npz(path) if path.suffix == ".npz" else _open_h5(path)
        _same(path, written, description or written)
        damaged = sum(_checksum(*sample) != total for *sample, total in zip(*arrays.values(), sums, strict=True))
        if damaged:
            raise _unreadable(path, f"{damaged} of {len(sums)} samples have changed since they were written")
    return written, arrays


Places = dict[str, int]  # where each array begins in the file


def _lay_out(part: Path, description: str, samples: int, a_shape: tuple[int, ...], u_shape: tuple[int, ...]) -> Places:
    """The whole structure, and all the room that it will need, before anything is in it."""
    with replacing(part) as new:
        with h5py.File(new, "w") as file:
            file.attrs["xdops"] = description
            for name, shape, kind in (("a", a_shape, "<f4"), ("u", u_shape, "<f4"), ("checksum", (), "<u4"), ("done", (), "|u1")):
                early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                early.set_layout(h5py.h5d.CONTIGUOUS)
                early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                early.set_obj_track_times(False)  # equal settings make equal files, whenever
                space = h5py.h5s.create_simple((samples, *shape))
                h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(kind)), space, early)
            places = {name: item.id.get_offset() for name, item in file.items()}
        with open(new, "r+b") as raw:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(raw.fileno(), 0, os.path.getsize(new))  # a disk that is too small says so now
    return places


def _put(part: Path, places: Places, indices: range, a: np.ndarray, u: np.ndarray) -> None:
    """Samples to their places; marked as done once they are on the disk."""
    sums = np.array([_checksum(*sample) for sample in zip(a, u, strict=True)], dtype="<u4")
    done = np.ones(len(indices), dtype="|u1")
    with open(part, "r+b") as raw:
        for together in ({"a": a, "u": u, "checksum": sums}, {"done": done}):
            for name, values in together.items():
                raw.seek(places[name] + indices.start * values[0].nbytes)
                raw.write(values.tobytes())
            raw.flush()
            os.fsync(raw.fileno())


def _continued(part: Path, description: str) -> tuple[int, Places]:
    """How many samples of an interrupted file are done and whole, from the first on, and where its arrays are."""
    with _foreign_files(part):
        written, arrays = _views(part)
        _same(part, written, description)
        whole = (
            mark and _checksum(a, u) == total
            for mark, a, u, total in zip(*(arrays[name] for name in ("done", "a", "u", "checksum")), strict=True)
        )
        done = next((i for i, good in enumerate(whole) if not good), len(arrays["done"]))
        return done, {name: view.offset for name, view in arrays.items()}


def _finish(part: Path, path: Path) -> None:
    if path.suffix == ".h5":
        os.replace(part, path)
        return
    description, arrays, sums = _open_h5(part)
    with replacing(path) as new, open(new, "wb") as raw:
        np.savez(raw, allow_pickle=False, **arrays, checksum=sums, settings=np.array(description))
    part.unlink()


def _open_h5(path: Path) -> tuple[str, NamedArrays, np.ndarray]:
    written, arrays = _views(path)
    return written, {name: arrays[name] for name in ("a", "u")}, arrays["checksum"]


def _views(path: Path) -> tuple[str, dict[str, np.memmap]]:
    """Description and all arrays. Who wrote the file is not known yet: a process that may crash says where they lie."""
    found = Parser(path, "hdf5").layout()
    kinds = {"a": "<f4", "u": "<f4", "checksum": "<u4", "done": "|u1"}
    if found["description"] is None or {n: x["dtype"] for n, x in found["arrays"].items()} != kinds:
        raise _unreadable(path, "it was not written by xdops")
    views = {name: np.memmap(path, x["dtype"], "c", x["offset"], tuple(x["shape"])) for name, x in found["arrays"].items()}
    if len({len(view) for view in views.values()}) != 1:
        raise _unreadable(path, "its arrays differ in length")
    return found["description"], views


def _open_npz(path: Path) -> tuple[str, NamedArrays, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise _unreadable(path, "it is not an .npz file")
    if not {"a", "u", "checksum", "settings"} <= set(zip_members(path)):
        raise _unreadable(path, "it was not written by xdops")
    written, sums = str(read_member(path, "settings")), read_member(path, "checksum")
    arrays = {name: read_member(path, name) for name in ("a", "u")}
    if sums.ndim != 1 or any(x.dtype != "<f4" or x.ndim < 2 or len(x) != len(sums) for x in arrays.values()):
        raise _unreadable(path, "it was not written by xdops")
    return written, arrays, sums


def _checksum(a: np.ndarray, u: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(u).data, zlib.crc32(np.ascontiguousarray(a).data))


def _same(path: Path, written: str, asked: str) -> None:
    """The file's description against the one that is asked for, difference by difference."""
    with _foreign_files(path):
        here, there = _flat(json.loads(asked)), _flat(json.loads(written))
    names = [name for name in here | there if here.get(name) != there.get(name)]
    if names:
        different = ", ".join(f"{name} {there.get(name)} (asked: {here.get(name)})" for name in names)
        raise XDError(
            f"{path}, which holds {different}", "a file of the same settings, or none", "another name, or remove the file"
        )


def _flat(description: dict[str, Any]) -> dict[str, Any]:
    return {"kind": description["kind"], "format": description["format"], **description["settings"]}


def _check_finite(a: np.ndarray, u: np.ndarray, start: int) -> None:
    for name, values in (("a", a), ("u", u)):
        good = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not good.all():
            raise XDError(
                f"{name} of sample {start + int(good.argmin())}, which is not finite",
                "a solution that stays bounded",
                "a smaller step, a larger viscosity, or a finer grid",
            )


def _unreadable(path: Path, why: str) -> XDError:
    return XDError(f"{path}: {why}", "a whole file that xdops data wrote", "remove it, and it will be made again")


@contextmanager
def _foreign_files(path: Path) -> Iterator[None]:
    """Damaged and foreign files fail in as many ways as there are parsers; all of them mean the same to the user."""
    try:
        yield
    except XDError:
        raise
    except Exception as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """What a user can do about a disk that refuses to write."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise XDError(
                f"a full disk: {path} could not be written",
                "room for all samples; what is finished is kept",
                "free some space, then run the same command: it continues where it stopped",
            ) from error
        raise XDError(
            f"{path}, which could not be written ({error.strerror or error})", "a folder that can be written to", "another place"
        ) from error
