"""Damaged files of users: an array that is right, or one XDError; never another exception, a crash or a wait without end."""

import contextlib
import gzip
import io
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import bad_world
import h5py
import numpy as np
import pytest
import scipy.io
import torch
from mutations import mutate
from torch import nn

from xdops import convert_, load, save
from xdops.data.arrays import open_arrays
from xdops.data.mnist import decode_idx, read_packed
from xdops.data.music import read_music
from xdops.data.proteins.domains import load_domains
from xdops.data.proteins.pdnet import read_distances
from xdops.data.text import read_words
from xdops.errors import XDError
from xdops.pde import DarcySettings
from xdops.pde.dataset import write_dataset
from xdops.pde.store import read as read_generated

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


def music() -> bytes:
    rolls = np.empty((1, 2), dtype=object)
    rolls[0, :] = [np.eye(4, 88, dtype=np.uint8), np.eye(3, 88, dtype=np.uint8)]
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, dict.fromkeys(("traindata", "validdata", "testdata"), rolls))
    return buffer.getvalue()


def objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([4, "ACDE", np.eye(4)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def idx() -> bytes:
    return gzip.compress(b"\0\0\x08\x03" + struct.pack(">3I", 4, 5, 6) + bytes(range(120)))


def domains() -> bytes:
    length, buffer = 30, io.BytesIO()
    arrays = {"seq": np.array("ACDEF" * 6), "cb": np.full((length, length), 5.0), "pssm": np.zeros((22, length))}
    arrays |= {"entropy": np.zeros(length), **{name: np.zeros((length, length)) for name in ("mfdca", "freecon", "potential")}}
    np.savez_compressed(buffer, **{f"1abc/{name}": array for name, array in arrays.items()})
    return buffer.getvalue()


def network() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.ReLU())


def model() -> bytes:
    converted = network()
    convert_(converted, torch.zeros(1, 1, 8))
    with TemporaryDirectory() as folder:
        save(converted, Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def generated(ending: str) -> bytes:
    with TemporaryDirectory() as folder:
        write_dataset(DarcySettings(samples=2, size=5), Path(folder, f"data{ending}"))
        return Path(folder, f"data{ending}").read_bytes()


def read_all(path: Path) -> None:
    file = open_arrays(path)
    for array in file.names:
        assert isinstance(file.read(array), np.ndarray)


#: By name: the whole file, how it is read, and how many damaged ones are tried.
FORMATS: dict[str, tuple[Callable[[], bytes], Callable[[Path], object], int]] = {
    "x.npz": (npz, read_all, 200),
    "x.npy": (npy, lambda path: read_all(path.parent), 200),
    "x.h5": (h5, read_all, 5),
    "x.mat": (mat, read_all, 5),
    "music.mat": (music, read_music, 5),
    "objects.npy": (objects, read_distances, 300),
    "train-images-idx3-ubyte.gz": (idx, lambda path: decode_idx(read_packed(path), str(path)), 200),
    "train-images-idx3-ubyte": (lambda: gzip.decompress(idx()), lambda path: decode_idx(read_packed(path), str(path)), 200),
    "ptb.train.txt": (lambda: b" no it was <unk> n't black monday \n" * 9, read_words, 200),
    "kortemme40_features.npz": (domains, lambda path: load_domains(path.parent), 100),
    "model.safetensors": (model, lambda path: load(path, network), 100),
    "data.npz": (lambda: generated(".npz"), read_generated, 100),
    "data.h5": (lambda: generated(".h5"), read_generated, 5),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    make, read, count = FORMATS[name]
    whole, rng = make(), np.random.default_rng(0)
    path = tmp_path / name
    for _ in range(count):
        path.write_bytes(mutate(whole, rng))
        with contextlib.suppress(XDError):
            read(path)
