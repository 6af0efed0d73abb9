"""A folder full of good and bad things to hand to `xdops`: data files, run folders, JSON, odd names, pipes."""

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import scipy.io
from search_data import dense_1d, images, regression, signals

from xdops.storage.documents import SEAL, digest, sealed

GOOD = signals()
X, Y = GOOD["x"], GOOD["y"]


def parts(**other: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {f"{name}_{part}": signals(n=20, seed=i)[name] for i, part in enumerate(("train", "val", "test")) for name in "xy"}
    return arrays | other


def vectors(k: int, n: int = 20) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, k) if k else n)


def spoilt(name: str, value: object) -> dict[str, np.ndarray]:
    array = GOOD[name].astype(float)
    array[(3, *([0] * (array.ndim - 1)))] = value
    return GOOD | {name: array}


#: .npz files by name, and a word of the complaint that each must meet.
ARRAYS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "y-shapes": (parts(y_train=vectors(2), y_val=vectors(2), y_test=vectors(0)), "same shape in every part"),
    "y-channels": (parts(y_train=vectors(2), y_val=vectors(2), y_test=vectors(3)), "same shape in every part"),
    "y-kinds": (parts(y_test=np.array(["a", "b"] * 10)), "text in some parts"),
    "x-huge": (spoilt("x", 1e200), "values up to 1e\\+200"),
    "x-huge-negative": (spoilt("x", -1e300), "values up to 1e\\+300"),
    "x-outlier": (spoilt("x", 1e20), "training part of x with values up to 1e\\+20, beside which the others cannot"),
    "x-missing": (GOOD | {"x": np.where(np.arange(24) == 5, -1e30, X)}, "values up to 1e\\+30.*if huge numbers stand for it"),
    "x-outlier-test": (parts(x_test=parts()["x_test"] * 1e9), "x with 480 values too large when scaled as in training"),
    "y-outlier": (GOOD | {"y": np.where(np.arange(60) == 3, 1e14, vectors(0, 60))}, "y with values up to 1e\\+14, beside which"),
    "y-outlier-test": (
        parts(**{f"y_{p}": vectors(0) * (1e9 if p == "test" else 1) for p in ("train", "val", "test")}),
        "y with 20 v",
    ),
    "ragged-outlier": ({"x": np.where(np.arange(60) == 3, 1e20, vectors(0, 60)), "length": np.full(12, 5)}, "beside which"),
    "ragged-one": ({"x": vectors(2, 60), "length": np.array([60])}, "given 1 sequence;"),
    "one": ({k: v[:1] for k, v in GOOD.items()}, "given 1 example;"),
    "x-nan": (spoilt("x", np.nan), r"x with 1 NaN and 0 infinite values, in 1 of 60 examples.*\(3, 0\)"),
    "x-inf": (GOOD | {"x": np.where(np.arange(60)[:, None] < 2, -np.inf, X)}, "0 NaN and 48 infinite values, in 2 of 60"),
    "y-huge": (GOOD | {"y": vectors(1, 60) * 1e30}, "larger units"),
    "y-tiny": (GOOD | {"y": vectors(1, 60) * 1e-30}, "smaller units"),
    "y-nan": (GOOD | {"y": np.where(np.arange(60) == 3, np.nan, vectors(0, 60))}, "y with 1 NaN"),
    "y-offset": (GOOD | {"y": 1.7e9 + vectors(0, 60)}, "around 1.7e\\+09 that differ by .*subtract an offset"),
    "y-vanishes": (GOOD | {"y": vectors(2, 60) * np.array([1.0, 1e-60])}, "differ by .*e-60 at most"),
    "labels-2-63": (GOOD | {"y": np.where(Y > 0, 2**63 + 5, 2**63).astype(np.uint64)}, "labels up to 9223372036854775813"),
    "labels-bytes": (GOOD | {"y": np.where(Y > 0, b"\xff\xfe", b"ok")}, "no text"),
    "empty-x": (GOOD | {"x": np.zeros((60, 0))}, "nothing in it"),
    "empty-y": (GOOD | {"y": np.zeros((60, 0))}, "nothing in it"),
    "empty": ({"x": np.zeros((0, 24)), "y": np.zeros(0, int)}, "0 examples|no examples"),
    "empty-numbers": ({"x": np.zeros((0, 24)), "y": np.zeros(0)}, "0 examples"),
    "empty-everything": ({"x": np.zeros((0,)), "y": np.zeros((0,))}, "2 to 5 dimensions"),
    "x-0d": (GOOD | {"x": np.float64(1)}, "a single value"),
    "y-0d": (GOOD | {"y": np.float64(1)}, "a single value"),
    "y-0d-int": (GOOD | {"y": np.int64(1)}, "a single value"),
    "x-6d": (GOOD | {"x": np.zeros((60, 2, 2, 2, 2, 2))}, "2 to 5 dimensions"),
    "x-complex": (GOOD | {"x": X + 1j}, "complex"),
    "x-text": (GOOD | {"x": np.full((60, 24), "1")}, "real numbers"),
    "y-complex": (GOOD | {"y": Y + 1j}, "complex"),
    "x-dates": (GOOD | {"x": np.zeros((60, 24), "datetime64[s]")}, "of type datetime64"),
    "x-record": (GOOD | {"x": np.zeros(60, [("a", "f4")])}, "of type"),
    "y-unseen": (parts(y_test=np.full(20, 7)), "labels 7 in the test part.*seen in training: 0, 1"),
    "y-grid": (GOOD | {"y": np.zeros((60, 3, 5, 7))}, r"y of shape \(60, 3, 5, 7\)"),
    "x-constant": (GOOD | {"x": np.ones((60, 24))}, r"training part of x with the same input in each of \d+ examples"),
    "y-constant": (GOOD | {"y": np.full(60, 0.5)}, r"training part of y with the same target in each of \d+ examples"),
    "x-and-parts": (GOOD | parts(), "both 'x' and 'x_train'"),
    "ragged-empty": ({"x": np.zeros((0, 2)), "length": np.zeros(0, int)}, r"x of shape \(0, 2\), with nothing in it"),
    "ragged-more": ({"x": np.zeros((60, 2)), "length": np.full(13, 5)}, "13 lengths|65"),
    "ragged-negative": ({"x": np.zeros((60, 2)), "length": np.array([-10, 70])}, "length"),
    "ragged-beyond-64-bits": ({"x": np.zeros((60, 2)), "length": np.array([2**63, 5], np.uint64)}, "length"),
    "ragged-fractions": ({"x": np.zeros((60, 2)), "length": np.array([10.5, 49.5])}, "one whole number per sequence"),
    "ragged-text": ({"x": np.zeros((60, 2)), "length": np.full(12, "5")}, "one whole number per sequence"),
    "x-sizes": (parts(x_test=np.zeros((20, 30))), r"x_test of shape \(20, 30\).*\(20, 24\)"),
    "one-class": (GOOD | {"y": np.zeros(60, int)}, "one class only"),
    "all-classes": (GOOD | {"y": np.arange(60)}, "an empty val part, as 60 examples of 60 classes are.*--kind regression if these"),
    "x-nanoseconds": (
        GOOD | {"x": 17 * 10**17 + (1000 * X).astype(np.int64)},
        r"around 1.7e\+18 that differ .*subtract an offset",
    ),
    "x-offset": (GOOD | {"x": 1e9 + 1e-4 * X}, r"around 1e\+09 that differ by .*subtract an offset"),
    "ragged-offset": ({"x": 1e9 + 1e-4 * vectors(0, 60), "length": np.full(12, 5)}, "subtract an offset"),
    "lengths": (GOOD | {"y": Y[:-1]}, "as many targets"),
    "few": ({k: v[:6] for k, v in GOOD.items()}, "at least 10"),
    "names": ({"a": X, "b": Y}, "no array 'x' and 'y'"),
    "nothing": ({}, "no array|cannot be read"),
    "only-x": ({"x": X}, "no array 'y'"),
    "no-test": ({k: v for k, v in parts().items() if "test" not in k}, "no x_test"),
    "no-training": (
        {"x_train": X[:0], "y_train": Y[:0], "x_test": X, "y_test": Y},
        "an empty train part",
    ),
    "no-y-test": ({k: v for k, v in parts().items() if k != "y_test"}, "array 'y_test'"),
    "y-objects": (GOOD | {"y": np.array([None] * 60, dtype=object)}, "array 'y' of y-objects.npz.*never unpickled"),
    "objects": (GOOD | {"x": np.array([None] * 60, dtype=object)}, "never unpickled"),
    "odd\n[bold]\tname": ({"x": X}, "no array 'y'"),
}
#: What only --kind makes bad: flags, arrays, complaint.
WITH_FLAGS: dict[str, tuple[dict[str, np.ndarray], list[str], str]] = {
    "float-labels": (GOOD | {"y": np.where(Y > 0, 1e30, 2e30)}, ["--kind", "classification"], "as floats, which merges"),
    "fractions": (GOOD | {"y": Y + 0.5}, ["--kind", "classification"], "fractions, as classes"),
    "grids": (GOOD, ["--kind", "dense"], "a grid like that of x"),
    "tiny": (images() | {"x": images()["x"][:, :2, :2, 0]}, ["--backbone", "residual"], "2 x 2, smaller than.*size 3"),
    "one-hot": (GOOD | {"y": np.eye(2)[Y].astype(int)}, ["--kind", "classification"], "one class per example"),
    "dense-parts": (
        parts(y_train=vectors(24), y_val=vectors(24), y_test=vectors(23)),
        ["--kind", "dense"],
        "a grid like that of x",
    ),
}


def raw_npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def twice() -> bytes:
    """Two members of one name, as numpy never writes."""
    once = io.BytesIO()
    np.savez(once, x=X, z=X, y=Y)
    return once.getvalue().replace(b"z.npy", b"x.npy")


def letters() -> bytes:
    """An archive of something else."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("thesis.txt", "mine")
    return buffer.getvalue()


BIG = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }"
#: Files by name: bytes, and a word of the complaint.
FILES: dict[str, tuple[bytes, str]] = {
    "nothing.npz": (b"", "cannot be read"),
    "garbage.npz": (b"PK\x03\x04 but no zip", "cannot be read"),
    "garbage.h5": (b"no hdf5", "cannot be read"),
    "garbage.hdf5": (b"\x89HDF\r\n\x1a\n" + b"\x00" * 100, "cannot be read"),
    "nothing.mat": (b"", "cannot be read"),
    "garbage.mat": (b"MATLAB 5.0 MAT-file".ljust(200), "cannot be read"),
    "table.csv": (b"1,2\n", "unknown format .csv"),
    "noending": (b"1,2\n", "unknown format"),
    "bomb.npz": (zipped(x=raw_npy(BIG % 10**15), y=raw_npy(BIG % 3, b"\0" * 24)), "its header says"),
    "beyond-64-bits.npz": (zipped(x=raw_npy(BIG % 10**30), y=raw_npy(BIG % 3, b"\0" * 24)), "its header says"),
    "negative.npz": (zipped(x=raw_npy(BIG % -5), y=raw_npy(BIG % 3, b"\0" * 24)), "its header says"),
    "code.npz": (zipped(x=raw_npy("__import__('os').system('touch hacked')"), y=b""), "cannot be read"),
    "cut.npz": (zipped(x=raw_npy(BIG % 100, b"\0" * 24), y=b"short"), "cannot be read|its header says"),
    "no-letters.npz": (zipped(x=raw_npy(BIG % 3, b"\0" * 24), y=raw_npy((BIG % 10**9).replace("f8", "U0"))), "its header says"),
    "torn.npz": (zipped(x=b"", y=b"").replace(b"PK\x01\x02", b"PK\x09\x09"), "cannot be read"),
    "thesis.npz": (letters(), "no array 'x' and 'y'"),
    "twice.npz": (twice(), "several arrays 'x'"),
}


def write_h5(path: Path, fill: Callable[[h5py.File], object]) -> None:
    with h5py.File(path, "w") as file:
        fill(file)


def external_storage(file: h5py.File) -> None:
    file.create_dataset("x", (60, 24), "f4", external=[("/etc/passwd", 0, 60 * 24 * 4)])
    file["y"] = Y


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((60, 24), "f8")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (60, 24))
    file.create_virtual_dataset("x", layout)
    file["y"] = Y


def external_link(file: h5py.File) -> None:
    file["x"] = h5py.ExternalLink("good.h5", "x")
    file["y"] = Y


def huge(file: h5py.File) -> None:
    file.create_dataset("x", (10**6, 10**7), "f8", chunks=(1, 1000))
    file["y"] = Y


def bomb(file: h5py.File) -> None:
    """Of one byte each, which are four once they are trained on."""
    file.create_dataset("x", (10**6, 10**7 // 4), "u1", chunks=(1, 1000))
    file["y"] = Y


def loop(file: h5py.File) -> None:
    file["y"] = Y
    file.create_group("g")["again"] = file["/"]


HDF5: dict[str, tuple[Callable[[h5py.File], object], str]] = {
    "external-storage.h5": (external_storage, "values are in other files"),
    "virtual.h5": (virtual, "values are in other files"),
    "external-link.h5": (external_link, "a link to another file"),
    "huge.h5": (huge, "no memory; expected at most .* GB, a third"),
    "bomb.h5": (bomb, r"of shape \(1000000, 2500000\), 10,000.0 GB, for which there is no memory"),
    "loop.h5": (loop, "no array 'x'"),
    "null.h5": (lambda f: (f.create_dataset("x", data=h5py.Empty("f4")), f.__setitem__("y", Y)), "no numbers"),
    "many.h5": (lambda f: [f.__setitem__(f"a{i:03}", 1.0) for i in range(100)], "which has: a000, .*, a019 and 80 more; expected"),
    "scalar.h5": (lambda f: (f.__setitem__("x", 1.0), f.__setitem__("y", Y)), "a single value"),
}

#: JSON that is none of ours.
JSON: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"seal": {',
    "list": b"[]",
    "number": b"3",
    "deep": b"[" * 200_000,
    "deep-object": b'{"a":' * 100_000,
    "not-utf8": b'{"\xff": 1}',
    "digits": b"1" * 10_000,
    "foreign": b'{"name": "thesis", "format": 1, "table": "../../evil", "scale": "laptop"}',
    "unsealed": b'{"identity": {}, "spaces": [], "layers": [], "machine": 1, "repetitions": 2, "rates": 3, "lines": 4}',
    "sealed-badly": b'{"seal": {"format": 2, "digest": "0"}, "identity": {}}',
    "from-the-future": b'{"seal": {"format": 99, "version": "9.9"}}',
}


def build(world: Path) -> None:
    """Everything but the finished run."""
    for name, (arrays, _) in ARRAYS.items():
        np.savez(world / f"{name}.npz", **arrays)
    for name, (arrays, _, _) in WITH_FLAGS.items():
        np.savez(world / f"{name}.npz", **arrays)
    for name, (data, _) in FILES.items():
        (world / name).write_bytes(data)
    for name, (fill, _) in HDF5.items():
        write_h5(world / name, fill)
    np.savez(world / "data.npz", **GOOD)
    np.savez(world / "longer.npz", x=np.zeros((5, 25)))
    np.savez(world / "regression.npz", **regression())
    np.savez(world / "dense.npz", **dense_1d())
    write_h5(world / "good.h5", lambda f: (f.__setitem__("x", X), f.__setitem__("y", Y)))
    scipy.io.savemat(world / "cells.mat", {"x": np.array([X[:3], "text"], dtype=object), "y": Y})
    scipy.io.savemat(world / "struct.mat", {"x": {"a": 1}, "y": Y})
    os.mkfifo(world / "pipe.npz")
    os.mkfifo(world / "begun.npz.part")
    (world / "datapipes").mkdir()
    os.mkfifo(world / "datapipes" / "cifar-10-python.tar.gz")
    (world / "pipes").mkdir()
    os.mkfifo(world / "pipes" / "x.npy")
    np.save(world / "pipes" / "y.npy", Y)
    (world / "folders" / "y.npy").mkdir(parents=True)
    np.save(world / "folders" / "x.npy", X)
    (world / "device.npz").symlink_to("/dev/zero")
    (world / "loop.npz").symlink_to("loop.npz")
    (world / "folder.npz").mkdir()
    (world / "emptyfolder").mkdir()
    (world / "notes").mkdir()
    (world / "notes" / "thesis.txt").write_text("mine")
    (world / "file").write_text("a file")
    (world / "huge.toml").write_text(f"lr = [1{'0' * 400}, 2{'0' * 400}]")
    (world / "mine.json").write_text('{"thesis": 1}')
    (world / "results.md").write_text("my own notes\n")
    (world / "badbackbone.py").write_text(BACKBONES)
    for name, data in JSON.items():
        for folder, file in (("run", "settings.json"), ("results", "burgers-laptop.json"), ("bench", "bench-layers.json")):
            home = world / f"{folder}-{name}"
            home.mkdir()
            (home / file).write_bytes(data)
        (world / f"{name}.json").write_bytes(data)


BACKBONES = '''
import os
from torch import nn
import torch

class Late(nn.Module):
    def __init__(self, request):
        super().__init__()
        self.conv = nn.Conv1d(1, request.outputs, 3, padding=1)
    def forward(self, x):
        if self.training:
            raise RuntimeError("only in training")
        return self.conv(x).mean(-1)

class Norm(nn.Module):
    """Fails on a batch of one."""
    def __init__(self, request):
        super().__init__()
        first, last = nn.Conv1d(1, 4, 3, padding=1), nn.Linear(4, request.outputs)
        self.layers = nn.Sequential(first, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.BatchNorm1d(4), last)
    def forward(self, x):
        return self.layers(x)

class LeavingLate(Late):
    def forward(self, x):
        if self.training:
            raise SystemExit(0)
        return self.conv(x).mean(-1)

class Leaving(Late):
    def forward(self, x):
        raise SystemExit(0)

class Odd(Exception):
    def __str__(self):
        raise RuntimeError("cannot even be said")

class Unsayable(Late):
    def forward(self, x):
        raise Odd

class Base(Late):
    def forward(self, x):
        raise BaseException("of no kind")

class BaseLate(Late):
    def forward(self, x):
        if self.training:
            raise GeneratorExit
        return self.conv(x).mean(-1)

class Nan(nn.Module):
    def __init__(self, request):
        super().__init__()
        self.conv = nn.Conv1d(1, request.outputs, 3, padding=1)
    def forward(self, x):
        return self.conv(x).mean(-1) * float("nan")

def nothing(request):
    return None

def fails(request):
    raise KeyError("no such thing")

def wrong(request):
    return nn.Conv1d(1, 2, 3)

def leaves(request):
    raise SystemExit(0)

def vanishes(request):
    os._exit(0)

number = 3
'''


def forge(run: Path, change: Callable[[dict], object]) -> None:
    """Change what a search is, and seal all of its files anew: what a digest does not tell."""

    def seal(path: Path, content: dict, run: str) -> None:
        kind = content.pop(SEAL)["kind"]
        path.write_text(json.dumps(sealed(kind, run, content)))

    def load(path: Path) -> dict:
        return json.loads(path.read_text())

    settings = load(run / "settings.json")
    change(settings["identity"])
    seal(run / "settings.json", settings, digest(settings["identity"]))
    for folder in (run / "runs").iterdir():
        identity = load(folder / "run.json")
        identity["describe"] |= settings["identity"]["network"] | {"experiment": digest(settings["identity"])}
        own = digest({key: value for key, value in identity.items() if key != SEAL})
        seal(folder / "run.json", identity, own)
        for path in (folder / "result.json", folder / "scores.json", *folder.glob("checkpoints/*.json")):
            seal(path, load(path), own)


def rewrite(path: Path, change: Callable[[dict], object]) -> None:
    """Change a JSON document by hand, as somebody with an editor would."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1))
