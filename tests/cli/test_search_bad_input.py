"""Every bad input: one clear message, exit code 2, nothing written."""

import re
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from search_data import dense_1d, images, signals

from xdops.cli.main import main
from xdops.errors import XDError
from xdops.storage.files import check_room

GOOD = signals()
FLAGS = ["--seeds", "1", "--epochs", "1", "--backbone", "small", "--depth", "1", "1", "1", "-q"]


def changed(name: str, where: object, value: object, base: dict[str, np.ndarray] = GOOD) -> dict[str, np.ndarray]:
    array = base[name].copy()
    array[where] = value
    return base | {name: array}


def parts(**other: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {f"{name}_{part}": signals(n=20, seed=i)[name] for i, part in enumerate(("train", "val", "test")) for name in "xy"}
    return arrays | other


#: No machine has both kinds of device.
MISSING_DEVICE = "mps" if torch.cuda.is_available() else "cuda"

CASES = {
    "NaN are counted and located": (
        changed("x", (7, 3), np.nan),
        [],
        r"x with 1 NaN and 0 infinite values, in 1 of 60 examples.*\(7, 3\)",
    ),
    "infinities are counted": (changed("x", (slice(2, 4), 0), -np.inf), [], r"0 NaN and 2 infinite values, in 2 of 60"),
    "NaN in targets": (changed("y", (1, 2), np.nan, dense_1d()), [], r"y with 1 NaN.*\(1, 2\)"),
    "lengths differ": (GOOD | {"y": GOOD["y"][:-1]}, [], "x with 60 examples and y with 59"),
    "one class only": (GOOD | {"y": np.ones(60, int)}, [], "one class only, 1"),
    "labels missing in training": (parts(y_test=np.full(20, 7)), [], "labels 7 in the test part.*seen in training: 0, 1"),
    "sizes differ between parts": (parts(x_test=np.zeros((20, 30))), [], r"x_test of shape \(20, 30\).*\(20, 24\)"),
    "images smaller than the kernel": (
        images() | {"x": np.zeros((60, 2, 2))},
        ["--backbone", "residual"],
        "2 x 2, smaller than.*size 3",
    ),
    "a crop of the whole": (GOOD, ["--crop", "24"], "--crop 24 for a grid of 24.*less than the longest side"),
    "a crop of nothing": (GOOD, ["--crop", "3"], "--crop 3 for a grid of 24.*at least 8"),
    "unknown names list what is there": (GOOD, ["--x-name", "ecg"], "no array 'ecg'.*which has: x, y"),
    "both names unknown": (GOOD, ["--x-name", "a", "--y-name", "b"], "no array 'a' and 'b'"),
    "no test part": ({k: v for k, v in parts().items() if "test" not in k}, [], "no x_test"),
    "object arrays": (GOOD | {"y": np.array([None] * 60, dtype=object)}, [], "array 'y' of data.npz.*never unpickled"),
    "complex inputs": (GOOD | {"x": GOOD["x"] + 1j}, [], "of type complex128"),
    "text as inputs": (GOOD | {"x": np.array([["a", "b"]] * 60)}, [], "real numbers"),
    "too few examples": ({k: v[:6] for k, v in GOOD.items()}, [], "6 examples.*at least 10"),
    "targets that fit nothing": (GOOD | {"y": np.zeros((60, 3, 5, 7))}, [], r"y of shape \(60, 3, 5, 7\)"),
    "one number only": (GOOD | {"x": np.float64(3)}, [], "x, a single value"),
    "no examples at all": ({k: v[:0] for k, v in GOOD.items()}, [], "0 examples"),
    "fractions as classes": (GOOD | {"y": GOOD["y"] + 0.5}, ["--kind", "classification"], "fractions, as classes"),
    "grids asked for, vectors given": (GOOD, ["--kind", "dense"], r"a grid like that of x, \(24,\)"),
    "wrong layout": (GOOD, ["--layout", "NCHW"], "expected one of NL"),
    "unknown space": (GOOD, ["--spaces", "backbone,nas"], "backbone,nas.*some of backbone, darts, xd"),
    "no seeds": (GOOD, ["--seeds", "0"], "--seeds 0"),
    "no epochs": (GOOD, ["--epochs", "0"], "epochs=0"),
    "depth of zero": (GOOD, ["--depth", "0", "1", "1"], "--depth 0 1 1"),
    "depth of zero, nothing searched": (GOOD, ["--depth", "1", "0", "1", "--spaces", "backbone"], "--depth 1 0 1"),
    "a device that is not there": (GOOD, ["--accelerator", MISSING_DEVICE], f"accelerator {MISSING_DEVICE}.*does not have"),
    "fractions that do not add up": (GOOD, ["--split", "0.5", "0.5", "0.5"], "sum to 1"),
    "unknown backbone": (GOOD, ["--backbone", "nothing.here:build"], "cannot be imported"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_data_and_bad_flags_are_refused_before_anything_is_written(case: str, tmp_path: Path, capsys, monkeypatch) -> None:
    arrays, flags, message = CASES[case]
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", **arrays)
    refused(["search", "data.npz", *FLAGS, "--out", "deep/out", *flags], message, capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.npz"]


def refused(arguments: list[str], message: str, capsys) -> None:
    """Exit code 2 and one message of what was given, expected, and to try."""
    capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert re.search(message, captured.err), captured.err
    assert captured.err.count("\n") == 1
    assert re.search("given .*; expected .*; try: ", captured.err)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.npz", None, "does not exist"),
        ("empty.npz", b"", "cannot be read"),
        ("garbage.npz", b"PK\x03\x04 but no zip", "cannot be read"),
        ("garbage.h5", b"no hdf5", "cannot be read"),
        ("garbage.mat", b"MATLAB 5.0 MAT-file".ljust(200), "cannot be read"),
        ("table.csv", b"1,2\n", "unknown format .csv"),
    ],
)
def test_unreadable_files_are_refused_before_anything_is_written(
    name, content, message, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content)
    refused(["search", name, *FLAGS, "--out", "out"], message, capsys)
    assert not Path("out").exists()


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    np.savez(folder / "data.npz", **GOOD)
    np.savez(folder / "other.npz", **signals(seed=9))
    assert main(["search", str(folder / "data.npz"), *FLAGS, "--spaces", "xd", "--out", str(folder / "out")]) == 0
    return folder


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path, monkeypatch) -> Path:
    """A finished search in the current folder, for a test to spoil."""
    shutil.copytree(finished_once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def state(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_that_holds_another_run_is_refused_and_stays_as_it_is(finished: Path, capsys) -> None:
    before = state(finished)
    same = [*FLAGS, "--spaces", "xd", "--out", "out"]
    refused(["search", "data.npz", *same], "already holds this run.*--resume", capsys)
    refused(["search", "other.npz", *same, "--resume"], "holds another run.*data.*crc32", capsys)
    refused(
        ["search", "data.npz", *same, "--resume", "--epochs", "3"], "holds another run.*search.epochs is 1 there, 3 here", capsys
    )
    refused(["search", "data.npz", *same, "--resume", "--depth", "3", "3", "3"], "holds another run.*network.depth", capsys)
    assert state(finished) == before


def test_a_folder_of_other_files_and_a_file_as_folder_are_refused(finished: Path, capsys) -> None:
    Path("notes").mkdir()
    Path("notes/thesis.txt").write_text("mine")
    refused(["search", "data.npz", *FLAGS, "--out", "notes"], "holds other files", capsys)
    refused(["search", "data.npz", *FLAGS, "--out", "notes", "--resume"], "holds other files", capsys)
    refused(["search", "data.npz", *FLAGS, "--out", "notes/thesis.txt"], "is a file", capsys)
    assert [p.name for p in Path("notes").iterdir()] == ["thesis.txt"]


def test_a_damaged_checkpoint_and_one_of_another_network_are_refused(finished: Path, capsys) -> None:
    settings = finished / "settings.json"
    text = settings.read_text()
    settings.write_text(text.replace('"depth": [\n    1', '"depth": [\n    3'))
    assert settings.read_text() != text
    refused(["predict", "out", "data.npz", "-o", "p.npz"], "settings.json, which does not verify: it was changed", capsys)
    settings.write_text(text)
    for path in (finished / "runs/xd-seed0/checkpoints").glob("best-*.safetensors"):
        path.write_bytes(path.read_bytes()[:-7])
    refused(["predict", "out", "data.npz", "-o", "p.npz"], "does not verify", capsys)
    settings.write_text("{")
    refused(["predict", "out", "data.npz", "-o", "p.npz"], "cannot be read", capsys)
    assert not Path("p.npz").exists()


@pytest.mark.parametrize(
    ("arrays", "flags", "message"),
    [
        ({"x": np.zeros((5, 23))}, [], r"examples of shape \(1, 23\).*\(1, 24\)"),
        ({"x": np.zeros((5, 2, 24))}, [], r"layout NL for x of shape \(5, 2, 24\)"),
        ({"x": np.full((5, 24), np.nan)}, [], "120 NaN"),
        ({"a": np.zeros((5, 24)), "b": np.zeros((5, 24))}, [], "no array 'x'.*which has: a, b"),
        ({"x": np.zeros((5, 24))}, ["--space", "darts"], "--space darts.*expected xd seed 0"),
        ({"x": np.zeros((5, 24))}, ["--seed", "4"], "--seed 4.*expected xd seed 0"),
        ({"x": np.zeros((0, 24))}, [], "no examples"),
        ({"x": np.zeros((5, 24))}, ["-o", "p.csv"], "ends in .npz"),
        ({"x": np.zeros((5, 24))}, ["-o", "no/such/p.npz"], "folder that does not exist"),
    ],
)
def test_predict_refuses_what_does_not_fit_and_writes_nothing(arrays, flags, message, finished: Path, capsys) -> None:
    np.savez("new.npz", **arrays)
    before = sorted(p.name for p in Path().iterdir())
    refused(["predict", "out", "new.npz", *(flags if "-o" in flags else ["-o", "p.npz", *flags])], message, capsys)
    assert sorted(p.name for p in Path().iterdir()) == before


def test_predict_refuses_a_folder_that_is_not_a_search(finished: Path, capsys) -> None:
    refused(["predict", "nowhere", "data.npz", "-o", "p.npz"], "holds no settings.json", capsys)


def test_a_disk_without_room_for_the_checkpoints_is_refused_before_anything_is_written(tmp_path: Path, capsys, monkeypatch) -> None:
    """Writing stops at 8 kB per file, as a disk or a quota does."""
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", **GOOD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    try:
        refused(["search", "data.npz", *FLAGS, "--spaces", "xd", "--out", "out"], "could not be written", capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not Path("out").exists()


def test_a_disk_that_is_too_small_for_the_checkpoints_is_noticed_before_anything_is_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(XDError, match="MB for what will be written"):
        check_room(Path("deep/out"), needed=2 * free)
    assert not Path("deep").exists()
