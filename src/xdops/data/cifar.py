"""CIFAR-10 (Krizhevsky 2009) from where the user keeps it, verified and held in memory.

Looked for in the data folder and in its folder `cifar10`: the official python version and the official binary version, each as the
archive or unpacked, and a subset in one .npz file. Archives are read as they are; nothing is unpacked to disk.
"""

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xdops.data.arrays import NpzFile
from xdops.data.pickles import unpickled
from xdops.data.places import data_folder
from xdops.errors import XDError

OFFICIAL_SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CLASSES = 10
SUBSET = "cifar10_10k_2k.npz"

#: Of the official files and the subset. The files inside the binary archive have no published checksums.
DIGESTS = {
    "cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a",
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
    "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
    SUBSET: "sha256:021ff46d18657503024c65219778a39fa4f504e7b94fd8ca614764382dbc8f18",
}


@dataclass(frozen=True)
class Release:
    """How many images the files hold, and their checksums."""

    per_batch: int = 10_000
    subset: tuple[int, int] = (10_000, 2_000)  # for training, for testing
    digests: Mapping[str, str] = field(default_factory=lambda: DIGESTS)  # file name -> algorithm:hex


OFFICIAL = Release()


@dataclass(frozen=True)
class CifarArrays:
    """Images (N, 3, 32, 32) and labels (N,) from 0 to 9, all uint8."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    source: str  # file or folder, seen from the data folder


LabelledImages = tuple[np.ndarray, np.ndarray]
TrainAndTest = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # x and y for training, x and y for testing


def load_cifar10(data_dir: str | Path | None = None, release: Release = OFFICIAL) -> CifarArrays:
    """All images from the first version that is there, complete ones first. data_dir: or else the environment's XDOPS_DATA."""
    root = data_folder(data_dir, "CIFAR-10", OFFICIAL_SOURCE)
    folders = (root, root / "cifar10")
    for name, read in READERS.items():
        for folder in folders:
            path = folder / name
            if path.is_dir() if name in (PYTHON.folder, BINARY.folder) else path.is_file():
                return CifarArrays(*read(path, release), path.relative_to(root).as_posix())
    raise XDError(
        f"no CIFAR-10 in {' or '.join(map(str, folders))}",
        f"one of {', '.join(READERS)}",
        f"download the python or binary version from {OFFICIAL_SOURCE} there, or set data_dir=... or XDOPS_DATA",
    )


@dataclass(frozen=True)
class Version:
    """One of the official versions: five training batches, one test batch, and how a batch is read."""

    folder: str
    ending: str
    decode: Callable[[bytes, str], LabelledImages]

    @property
    def names(self) -> list[str]:
        return [*(f"data_batch_{i}{self.ending}" for i in range(1, 6)), f"test_batch{self.ending}"]

    def from_archive(self, path: Path, release: Release) -> TrainAndTest:
        check_digest(path, release)
        wanted = {f"{self.folder}/{name}": name for name in self.names}
        batches: dict[str, LabelledImages] = {}
        try:
            with tarfile.open(path, "r:gz") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isreg() and member.name in wanted else None
                    if content is not None:
                        batches[wanted[member.name]] = self.batch(content.read(), f"{member.name} of {path}", release)
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise XDError(
                f"{path}, which cannot be read to its end ({type(error).__name__}: {error})",
                "a whole .tar.gz archive",
                f"download it again from {OFFICIAL_SOURCE}; a cut-off download is the usual cause",
            ) from error
        return self.joined(batches, path)

    def from_folder(self, path: Path, release: Release) -> TrainAndTest:
        batches = {}
        for name in self.names:
            if (path / name).is_file():
                check_digest(path / name, release)
                batches[name] = self.batch((path / name).read_bytes(), str(path / name), release)
        return self.joined(batches, path)

    def batch(self, data: bytes, where: str, release: Release) -> LabelledImages:
        return checked(*self.decode(data, where), where, release.per_batch)

    def joined(self, batches: Mapping[str, LabelledImages], path: Path) -> TrainAndTest:
        missing = [name for name in self.names if name not in batches]
        if missing:
            raise XDError(
                f"{path} without {', '.join(missing)}",
                f"{', '.join(self.names)}",
                f"download the complete archive from {OFFICIAL_SOURCE}",
            )
        *train, test = (batches[name] for name in self.names)
        return *concatenated(train), *concatenated([test])


def concatenated(batches: Sequence[LabelledImages]) -> LabelledImages:
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def decode_pickled(data: bytes, where: str) -> LabelledImages:
    """A batch of the python version: a dictionary with `data` (N, 3072) and `labels`, a list."""
    content = unpickled(data, where)
    x, labels = (content.get("data"), content.get("labels")) if isinstance(content, dict) else (None, None)
    if not isinstance(x, np.ndarray) or not isinstance(labels, list) or not all(type(n) is int for n in labels):
        raise XDError(
            f"{where} without an array 'data' and a list 'labels' of integers", "both", f"the files from {OFFICIAL_SOURCE}"
        )
    return x, np.array(labels, dtype=np.int64)


def decode_records(data: bytes, where: str) -> LabelledImages:
    """A batch of the binary version: for each image a byte with its label, then its pixels."""
    if len(data) % (1 + PIXELS):
        raise XDError(
            f"{where} of {len(data):,} bytes",
            f"whole records of 1 + {PIXELS} bytes",
            f"a new copy from {OFFICIAL_SOURCE}; a cut-off file is the usual cause",
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0]


def from_npz(path: Path, release: Release) -> TrainAndTest:
    """The subset: x_train, y_train, x_test, y_test."""
    check_digest(path, release)
    file = NpzFile(path)
    parts = zip(("train", "test"), release.subset, strict=True)
    train, test = (
        checked(file.read(f"x_{part}"), file.read(f"y_{part}"), f"the {part} part of {path}", count) for part, count in parts
    )
    return *train, *test


PYTHON = Version("cifar-10-batches-py", "", decode_pickled)
BINARY = Version("cifar-10-batches-bin", ".bin", decode_records)

#: What is looked for, in this order.
READERS: dict[str, Callable[[Path, Release], TrainAndTest]] = {
    "cifar-10-python.tar.gz": PYTHON.from_archive,
    "cifar-10-binary.tar.gz": BINARY.from_archive,
    PYTHON.folder: PYTHON.from_folder,
    BINARY.folder: BINARY.from_folder,
    SUBSET: from_npz,
}


def checked(x: np.ndarray, y: np.ndarray, where: str, count: int) -> LabelledImages:
    """Images (count, 3, 32, 32) and labels (count,) as uint8, refused unless that is what they are."""
    if x.dtype != np.uint8 or x.shape not in ((count, PIXELS), (count, *SHAPE)) or y.shape != (count,):
        raise XDError(
            f"{where} with images {x.shape} of {x.dtype} and {y.size:,} labels",
            f"{count:,} images of 3 x 32 x 32 bytes, each with a label",
            f"a new copy from {OFFICIAL_SOURCE}",
        )
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= CLASSES:
        raise XDError(
            f"{where} with labels from {y.min()} to {y.max()} of {y.dtype}",
            f"integers from 0 to {CLASSES - 1}",
            f"CIFAR-10, not CIFAR-100, from {OFFICIAL_SOURCE}",
        )
    return x.reshape(count, *SHAPE), y.astype(np.uint8)


def check_digest(path: Path, release: Release) -> None:
    """Refuse a file that is not, byte for byte, the one of that name."""
    if path.name not in release.digests:
        return
    algorithm, _, expected = release.digests[path.name].partition(":")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        raise XDError(
            f"{path} ({path.stat().st_size:,} bytes) with {algorithm} {found}",
            f"{algorithm} {expected}, the published one",
            f"download it again from {OFFICIAL_SOURCE}; a cut-off or altered file is the usual cause",
        )
