"""Damaged files of users: an array that is right, or one XDError; never another exception, a crash or a wait without end."""

import io
from collections.abc import Callable
from pathlib import Path

import bad_world
import h5py
import numpy as np
import pytest
import scipy.io

from xdops.data.arrays import open_arrays
from xdops.errors import XDError

X = bad_world.X.astype(np.float32)


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=X, y=bad_world.Y)
    return buffer.getvalue()


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, X)
    return buffer.getvalue()


def h5() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_dataset("x", data=X, compression="gzip")
        file["names"] = np.array(["a", "b"], dtype=h5py.string_dtype())
    return buffer.getvalue()


def mat() -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"x": X, "cell": np.array([X[:2], "text"], dtype=object)}, do_compression=True)
    return buffer.getvalue()


FORMATS: dict[str, tuple[Callable[[], bytes], int]] = {
    "x.npz": (npz, 200),
    "x.npy": (npy, 200),
    "x.h5": (h5, 8),
    "x.mat": (mat, 8),
}


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip, overwrite, double or blank a piece."""
    damaged = bytearray(data)
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    match rng.integers(5):
        case 0:
            del damaged[at:]
        case 1:
            for place in rng.integers(len(data), size=8):
                damaged[place] ^= 1 << int(rng.integers(8))
        case 2:
            damaged[at : at + length] = rng.bytes(length)
        case 3:
            damaged[at:at] = damaged[at : at + length]
        case 4:
            damaged[at : at + length] = b"\xff" * length
    return bytes(damaged)


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    make, count = FORMATS[name]
    whole, rng = make(), np.random.default_rng(0)
    path = tmp_path / name
    for _ in range(count):
        path.write_bytes(mutate(whole, rng))
        try:
            file = open_arrays(tmp_path if name.endswith(".npy") else path)
            for array in file.names:
                assert isinstance(file.read(array), np.ndarray)
        except XDError:
            continue
