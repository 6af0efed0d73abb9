"""CIFAR-10 is read exactly from every official form; what is not what it should be is refused, and no pickle runs code."""

import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from pickle_support import Python2, Touch

from xdops.data.cifar import DIGESTS, OFFICIAL, CifarArrays, Release, load_cifar10
from xdops.data.pickles import unpickled
from xdops.errors import XDError

COUNT = 300  # in a batch: more than the 256 values that a pickle's short numbers hold
SMALL = Release(per_batch=COUNT, subset=(20, 10), digests={})
TRAIN = [f"data_batch_{i}" for i in range(1, 6)]
Batches = dict[str, tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def batches() -> Batches:
    rng = np.random.default_rng(0)
    return {n: (rng.integers(0, 256, (COUNT, 3072), np.uint8), rng.integers(0, 10, COUNT)) for n in [*TRAIN, "test_batch"]}


def expected(batches: Batches) -> tuple[np.ndarray, ...]:
    x, y = (np.concatenate([batches[name][i] for name in TRAIN]) for i in (0, 1))
    return x.reshape(-1, 3, 32, 32), y, batches["test_batch"][0].reshape(-1, 3, 32, 32), batches["test_batch"][1]


def assert_equal(found: CifarArrays, batches: Batches) -> None:
    arrays = (found.x_train, found.y_train, found.x_test, found.y_test)
    for a, b in zip(arrays, expected(batches), strict=True):
        assert a.dtype == np.uint8
        assert a.flags.writeable
        np.testing.assert_array_equal(a, b)


def python_files(batches: Batches) -> dict[str, bytes]:
    return {f"cifar-10-batches-py/{name}": Python2().batch(x, y) for name, (x, y) in batches.items()}


def binary_files(batches: Batches) -> dict[str, bytes]:
    records = {name: np.concatenate([y[:, None].astype(np.uint8), x], axis=1) for name, (x, y) in batches.items()}
    return {f"cifar-10-batches-bin/{name}.bin": r.tobytes() for name, r in records.items()}


FORMS = {"cifar-10-python.tar.gz": python_files, "cifar-10-binary.tar.gz": binary_files}


def archive(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as tar:
        for name, data in {**files, f"{next(iter(files)).split('/')[0]}/readme.html": b"<html>"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target.getvalue()


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def write_subset(folder: Path, **changes: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = {f"x_{part}": rng.integers(0, 256, (n, 3, 32, 32), np.uint8) for part, n in (("train", 20), ("test", 10))}
    arrays |= {f"y_{part}": rng.integers(0, 10, n, np.uint8) for part, n in (("train", 20), ("test", 10))} | changes
    folder.mkdir(exist_ok=True)
    np.savez(folder / "cifar10_10k_2k.npz", **arrays)
    return arrays


def test_the_files_of_these_tests_are_pickles_that_python_reads_alike(batches: Batches) -> None:
    x, y = batches["data_batch_1"]
    data = Python2().batch(x, y)
    theirs, ours = pickle.loads(data, encoding="latin-1"), unpickled(data, "a batch")
    assert list(ours) == list(theirs) == ["batch_label", "labels", "data", "filenames"]
    assert {k: v for k, v in ours.items() if k != "data"} == {k: v for k, v in theirs.items() if k != "data"}
    np.testing.assert_array_equal(ours["data"], theirs["data"])
    np.testing.assert_array_equal(ours["data"], x)


def test_an_array_written_column_by_column_is_read_as_such(batches: Batches) -> None:
    x, y = batches["data_batch_1"]
    np.testing.assert_array_equal(unpickled(Python2().batch(x, y, by_columns=True), "a batch")["data"], x)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("inside", ["", "cifar10"])
def test_official_archives_are_read_exactly(name: str, inside: str, batches: Batches, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    (tmp_path / inside / name).write_bytes(archive(FORMS[name](batches)))
    found = load_cifar10(tmp_path, SMALL)
    assert_equal(found, batches)
    assert found.source == f"{inside}/{name}".lstrip("/")
    assert [p.name for p in (tmp_path / inside).iterdir()] == [name]  # nothing was unpacked


@pytest.mark.parametrize("name", FORMS)
def test_unpacked_archives_are_read_exactly(name: str, batches: Batches, tmp_path: Path) -> None:
    unpack(FORMS[name](batches), tmp_path)
    assert_equal(load_cifar10(tmp_path, SMALL), batches)


def test_the_subset_is_read_from_the_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = write_subset(tmp_path / "cifar10")
    monkeypatch.setenv("XDOPS_DATA", str(tmp_path))
    found = load_cifar10(release=SMALL)
    for name, array in arrays.items():
        np.testing.assert_array_equal(getattr(found, name), array)
    assert found.source == "cifar10/cifar10_10k_2k.npz"


def test_the_complete_data_are_preferred_to_the_subset(batches: Batches, tmp_path: Path) -> None:
    write_subset(tmp_path)
    unpack(binary_files(batches), tmp_path / "cifar10")
    assert load_cifar10(tmp_path, SMALL).source == "cifar10/cifar-10-batches-bin"


def test_the_checksums_are_those_of_the_official_files_and_used_unless_others_are_given() -> None:
    assert OFFICIAL.digests is DIGESTS
    assert DIGESTS["cifar-10-python.tar.gz"] == "md5:c58f30108f718f92721af3b95e74349a"
    assert DIGESTS["cifar-10-binary.tar.gz"] == "md5:c32a1d4ab5d03f1284b67883e8d87530"


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_one_changed_bit_of_an_archive_is_a_checksum_error(algorithm: str, batches: Batches, tmp_path: Path) -> None:
    data = bytearray(archive(binary_files(batches)))
    digest = hashlib.new(algorithm, data).hexdigest()
    path = tmp_path / "cifar-10-binary.tar.gz"
    release = Release(COUNT, digests={path.name: f"{algorithm}:{digest}"})
    path.write_bytes(data)
    assert_equal(load_cifar10(tmp_path, release), batches)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(XDError, match=rf"with {algorithm} .*expected {algorithm} {digest}.*cs\.toronto\.edu"):
        load_cifar10(tmp_path, release)


@pytest.mark.parametrize("write", [lambda b, d: unpack(python_files(b), d), lambda b, d: write_subset(d)], ids=["python", "subset"])
def test_unpacked_batches_and_the_subset_are_held_to_the_published_checksums(
    write: Callable[[Batches, Path], object], batches: Batches, tmp_path: Path
) -> None:
    write(batches, tmp_path)
    with pytest.raises(XDError, match="the published one"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("kept", [0.01, 0.5, 0.999])
def test_a_truncated_archive_is_refused(name: str, kept: float, batches: Batches, tmp_path: Path) -> None:
    data = archive(FORMS[name](batches))
    (tmp_path / name).write_bytes(data[: int(kept * len(data))])
    with pytest.raises(XDError, match=r"cannot be read to its end.*download it again"):
        load_cifar10(tmp_path, SMALL)


@pytest.mark.parametrize("form", FORMS.values())
def test_a_truncated_batch_is_refused(form: Callable[[Batches], dict[str, bytes]], batches: Batches, tmp_path: Path) -> None:
    files = form(batches)
    name = next(n for n in files if "data_batch_3" in n)
    unpack(files | {name: files[name][:-1000]}, tmp_path)
    with pytest.raises(XDError, match=r"data_batch_3.*a cut-off file"):
        load_cifar10(tmp_path, SMALL)


@pytest.mark.parametrize("form", FORMS.values())
def test_a_missing_batch_is_named(form: Callable[[Batches], dict[str, bytes]], batches: Batches, tmp_path: Path) -> None:
    unpack({name: data for name, data in form(batches).items() if "batch_4" not in name}, tmp_path)
    with pytest.raises(XDError, match=r"without data_batch_4"):
        load_cifar10(tmp_path, SMALL)


@pytest.mark.parametrize("form", FORMS.values())
def test_labels_out_of_range_are_refused(form: Callable[[Batches], dict[str, bytes]], batches: Batches, tmp_path: Path) -> None:
    batches["data_batch_2"][1][7] = 10
    unpack(form(batches), tmp_path)
    with pytest.raises(XDError, match=r"data_batch_2.* to 10 .*integers from 0 to 9"):
        load_cifar10(tmp_path, SMALL)


def test_negative_labels_are_refused(batches: Batches, tmp_path: Path) -> None:
    batches["data_batch_2"][1][7] = -1
    unpack(python_files(batches), tmp_path)
    with pytest.raises(XDError, match=r"labels from -1"):
        load_cifar10(tmp_path, SMALL)


@pytest.mark.parametrize("form", FORMS.values())
def test_another_number_of_images_is_refused(form: Callable[[Batches], dict[str, bytes]], batches: Batches, tmp_path: Path) -> None:
    x, y = batches["test_batch"]
    unpack(form(batches | {"test_batch": (x[:-1], y[:-1])}), tmp_path)
    with pytest.raises(XDError, match=r"test_batch.*299, .*300 images"):
        load_cifar10(tmp_path, SMALL)


@pytest.mark.parametrize(
    "changes",
    [
        {"x_test": np.zeros((10, 3, 32, 31), np.uint8)},
        {"x_train": np.zeros((20, 3, 32, 32), np.float32)},
        {"y_train": np.zeros(19, np.uint8)},
    ],
    ids=["sizes", "type", "labels"],
)
def test_a_subset_of_other_sizes_is_refused(changes: dict[str, np.ndarray], tmp_path: Path) -> None:
    write_subset(tmp_path, **changes)
    with pytest.raises(XDError, match="images of 3 x 32 x 32 bytes"):
        load_cifar10(tmp_path, SMALL)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cifar-10-python.tar.gz")
    (tmp_path / "cifar-10-binary.tar.gz").mkdir()
    (tmp_path / "cifar-10-batches-py").write_text("no folder")
    with pytest.raises(XDError, match="no CIFAR-10 in"):
        load_cifar10(tmp_path)


def test_missing_data_are_answered_with_where_was_looked_and_the_official_source(tmp_path: Path) -> None:
    with pytest.raises(XDError) as raised:
        load_cifar10(tmp_path)
    text = str(raised.value)
    for word in (str(tmp_path), str(tmp_path / "cifar10"), "cifar-10-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar.html"):
        assert word in text


def test_a_data_folder_that_is_not_there_or_not_named_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(XDError, match="nowhere, which does not exist"):
        load_cifar10(tmp_path / "nowhere")
    monkeypatch.delenv("XDOPS_DATA", raising=False)
    with pytest.raises(XDError, match="neither data_dir nor the environment variable XDOPS_DATA"):
        load_cifar10()


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_batch_is_refused_without_being_run(protocol: int, batches: Batches, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    evil = pickle.dumps({"data": Touch(trap), "labels": []}, protocol)
    unpack(python_files(batches) | {"cifar-10-batches-py/data_batch_1": evil}, tmp_path)
    with pytest.raises(XDError, match=r"a pickle with the name '\w+\.open'.* nothing else is looked up, imported or called"):
        load_cifar10(tmp_path, SMALL)
    assert not trap.exists()


@pytest.mark.parametrize("content", [[1], {"data": [1], "labels": [1]}, {"data": np.zeros(1, np.uint8), "labels": [1.0]}])
def test_a_batch_without_images_or_labels_is_refused(content: object, batches: Batches, tmp_path: Path) -> None:
    unpack(python_files(batches) | {"cifar-10-batches-py/data_batch_1": pickle.dumps(content)}, tmp_path)
    with pytest.raises(XDError, match="without an array 'data' and a list 'labels' of integers"):
        load_cifar10(tmp_path, SMALL)
