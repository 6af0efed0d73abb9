"""MNIST (LeCun, Cortes, Burges) from its official idx files, packed or unpacked: read, checked against header and checksum."""

import gzip
import hashlib
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xdops.data.places import find_file
from xdops.errors import XDError

SOURCE = "https://yann.lecun.com/exdb/mnist, or https://storage.googleapis.com/cvdf-datasets/mnist"
#: md5 of the unpacked files: packing them again changes nothing that matters.
DIGESTS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
#: None of the files has as many bytes.
LARGEST = 1 << 26
#: The type of an idx file's entries: bytes.
UNSIGNED_BYTE = 8


@dataclass(frozen=True)
class Mnist:
    """Images (N, 28, 28) and labels (N,), all uint8."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_mnist(data_dir: str | Path | None = None, digests: Mapping[str, str] = DIGESTS) -> Mnist:
    arrays = []
    for part in ("train", "t10k"):
        x, y = (_load(f"{part}-{what}", data_dir, digests) for what in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        if x.ndim != 3 or y.ndim != 1 or len(x) != len(y) or int(y.max(initial=0)) > 9:
            raise XDError(
                f"{part} images {x.shape} and labels {y.shape} up to {y.max(initial=0)}",
                "as many labels from 0 to 9 as images",
                f"the four files of one set, from {SOURCE}",
            )
        arrays += [x, y]
    return Mnist(*arrays)


def _load(name: str, data_dir: str | Path | None, digests: Mapping[str, str]) -> np.ndarray:
    path = find_file(data_dir, "mnist", (f"{name}.gz", name), "MNIST", SOURCE)
    data = read_packed(path)
    array = decode_idx(data, str(path))
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if name in digests and found != digests[name]:
        raise XDError(f"{path} with md5 {found} (unpacked)", f"md5 {digests[name]}, the official file's", f"a copy from {SOURCE}")
    return array


def read_packed(path: Path) -> bytes:
    """The file, unpacked if its name ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise XDError(
            f"{path}, which cannot be unpacked to its end ({type(error).__name__}: {error})",
            "a whole gzip file",
            f"download it again from {SOURCE}; a cut-off download is the usual cause",
        ) from error
    if len(data) > LARGEST:
        raise XDError(f"{path} with more than {LARGEST:,} bytes, unpacked", "a file of MNIST", f"a copy from {SOURCE}")
    return data


def decode_idx(data: bytes, where: str) -> np.ndarray:
    """An idx file of bytes: 0, 0, type, number of dimensions, each size as a big-endian 32-bit integer, then the entries."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTE or not 1 <= data[3] <= 4:
        raise XDError(f"{where}, which begins with {data[:4].hex(' ') or 'nothing'}", "an idx file: 00 00 08 ...", f"from {SOURCE}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise XDError(
            f"{where}, cut off within its header of {start} bytes", "a whole idx file", f"download it again from {SOURCE}"
        )
    sizes = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(sizes):
        raise XDError(
            f"{where} with {len(data) - start:,} bytes after a header that says {' x '.join(map(str, sizes))}",
            f"{math.prod(sizes):,} bytes",
            f"download it again from {SOURCE}; a cut-off file is the usual cause",
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(sizes)
