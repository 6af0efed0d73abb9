"""Data files: made once, resumed after anything, whole or refused."""

import json
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest

from xdops.errors import XDError
from xdops.pde import store
from xdops.pde.burgers import BurgersSettings
from xdops.pde.darcy import DarcySettings, make_darcy
from xdops.pde.dataset import Settings, data_folder, dataset, describe, file_name, write_dataset
from xdops.pde.navier_stokes import NavierStokesSettings

SETTINGS = DarcySettings(samples=40, size=9)  # three chunks: 16, 16, 8


class Calls(list[tuple[int, int]]):
    """A progress callback that remembers, and stops as if by Ctrl-C before the chunk that starts at `stop`."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop = stop

    def __call__(self, done: int, total: int) -> None:
        self.append((done, total))
        if done == self.stop:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    a, u = make_darcy(SETTINGS, range(40))
    return {"a": a.astype(np.float32), "u": u.astype(np.float32)}


def same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(arrays) == ["a", "u"]
    for name, array in arrays.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected[name])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def interrupted(path: Path, stop: int = 32) -> Path:
    with pytest.raises(KeyboardInterrupt):
        write_dataset(SETTINGS, path, Calls(stop))
    return path.with_name(path.name + ".part")


def change_byte(path: Path, array: str, index: int, sample_bytes: int) -> None:
    with h5py.File(path, "r") as file:
        offset = file[array].id.get_offset() + index * sample_bytes + 5
    with open(path, "r+b") as raw:
        raw.seek(offset)
        old = raw.read(1)
        raw.seek(offset)
        raw.write(bytes([old[0] ^ 1]))


def test_a_file_is_made_once_and_then_only_read(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    first, second = Calls(), Calls()
    same(dataset(SETTINGS, tmp_path, first), expected)
    assert first == [(0, 40), (16, 40), (32, 40), (40, 40)]
    assert names(tmp_path) == [file_name(SETTINGS)]
    before = (tmp_path / file_name(SETTINGS)).stat()
    same(dataset(SETTINGS, tmp_path, second), expected)
    after = (tmp_path / file_name(SETTINGS)).stat()
    assert second == []
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_the_file_says_all_settings(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    dataset(SETTINGS, tmp_path)
    with h5py.File(tmp_path / file_name(SETTINGS)) as file:  # any HDF5 reader will do
        inside = json.loads(file.attrs["xdops"])
        same({name: file[name][()] for name in ("a", "u")}, expected)
    assert inside["kind"] == "darcy"
    assert inside["format"] == 1
    assert inside["settings"] == {"samples": 40, "size": 9, "seed": 0, "high": 12.0, "low": 3.0, "solver_size": None}


def test_changing_the_arrays_leaves_the_file_as_it_is(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    arrays = dataset(SETTINGS, tmp_path)
    arrays["u"][:] = 7
    same(dataset(SETTINGS, tmp_path), expected)


@pytest.mark.parametrize("name", ["data.h5", "data.npz"])
def test_an_interrupted_file_goes_on_where_it_stopped(tmp_path: Path, name: str, expected: dict[str, np.ndarray]) -> None:
    path, calls = tmp_path / name, Calls()
    interrupted(path)
    assert names(tmp_path) == [f"{name}.part"]
    same(write_dataset(SETTINGS, path, calls), expected)
    assert calls == [(32, 40), (40, 40)]
    assert names(tmp_path) == [name]


def test_a_killed_process_leaves_what_it_had_finished(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    script = f"""
import os, pathlib, signal
from xdops.pde.darcy import DarcySettings
from xdops.pde.dataset import dataset
def progress(done, total):
    if done == 32:
        os.kill(os.getpid(), signal.SIGKILL)
dataset(DarcySettings(samples=40, size=9), pathlib.Path({str(tmp_path)!r}), progress)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    calls = Calls()
    same(dataset(SETTINGS, tmp_path, calls), expected)
    assert calls[0] == (32, 40)
    assert names(tmp_path) == [file_name(SETTINGS)]


@pytest.mark.parametrize("name", ["data.h5", "data.npz"])
def test_what_a_process_left_that_was_killed_at_the_very_end_is_removed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_dataset(SETTINGS, tmp_path / "again.h5")
    write_dataset(SETTINGS, path)
    (tmp_path / "again.h5").rename(tmp_path / f"{name}.part")
    for mark in (f".{name}.lock", f".{name}.lock.holder"):
        (tmp_path / mark).touch()
    write_dataset(SETTINGS, path)
    assert names(tmp_path) == [name]


def test_a_part_of_another_description_beside_a_whole_file_is_not_ours_to_remove(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    write_dataset(SETTINGS, path)
    (tmp_path / "data.npz.part").write_text("mine")
    write_dataset(SETTINGS, path)
    assert (tmp_path / "data.npz.part").read_text() == "mine"


def test_a_chunk_that_did_not_reach_the_disk_is_made_again(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    path, calls = tmp_path / "d.h5", Calls()
    change_byte(interrupted(path), "u", 20, 9 * 9 * 4)
    same(write_dataset(SETTINGS, path, calls), expected)
    assert calls[0] == (16, 40)


def test_a_full_disk_says_so_and_loses_nothing(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    path, calls = tmp_path / "d.npz", Calls()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    interrupted(path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))  # the samples are in their places, the copy does not fit
        with pytest.raises(XDError, match=r"a full disk.*d\.npz.*continues where it stopped"):
            write_dataset(SETTINGS, path)
        with pytest.raises(XDError, match="a full disk"):
            write_dataset(SETTINGS, tmp_path / "other.h5")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert names(tmp_path) == ["d.npz.part"]
    same(write_dataset(SETTINGS, path, calls), expected)


def test_two_at_once_make_it_once(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    calls = [Calls(), Calls(), Calls()]
    with ThreadPoolExecutor(3) as pool:
        for arrays in pool.map(lambda c: dataset(SETTINGS, tmp_path, c), calls):
            same(arrays, expected)
    assert sorted(map(len, calls)) == [0, 0, 4]
    assert names(tmp_path) == [file_name(SETTINGS)]


@pytest.mark.parametrize("name", ["data.h5", "data.npz"])
def test_other_settings_are_refused_one_by_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_dataset(SETTINGS, path)
    before = path.read_bytes()
    with pytest.raises(XDError, match=r"samples 40 \(asked: 41\), seed 0 \(asked: 3\)"):
        write_dataset(DarcySettings(samples=41, size=9, seed=3), path)
    with pytest.raises(XDError, match=r"kind darcy \(asked: burgers\)"):
        write_dataset(BurgersSettings(samples=2, size=16), path)
    assert path.read_bytes() == before


def test_an_interrupted_file_of_other_settings_is_refused(tmp_path: Path) -> None:
    part = interrupted(tmp_path / "d.h5")
    before = part.read_bytes()
    with pytest.raises(XDError, match=r"d\.h5\.part, which holds seed 0 \(asked: 1\)"):
        write_dataset(DarcySettings(samples=40, size=9, seed=1), tmp_path / "d.h5")
    assert part.read_bytes() == before


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "d.h5"
    write_dataset(SETTINGS, path)
    change_byte(path, "a", 3, 9 * 9 * 4)
    with pytest.raises(XDError, match="1 of 40 samples have changed"):
        write_dataset(SETTINGS, path)


@pytest.mark.parametrize("name", ["data.h5", "data.npz"])
def test_truncated_files_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_dataset(SETTINGS, path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(XDError, match=f"{name}.*a whole file"):
        write_dataset(SETTINGS, path)


def write_foreign_h5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = file["u"] = np.zeros((40, 9, 9))


FOREIGN = {
    "text.h5": lambda path: path.write_text("not data"),
    "text.npz": lambda path: path.write_text("not data"),
    "own.npz": lambda path: np.savez(path, a=np.zeros(3), u=np.zeros(3)),
    "object.npz": lambda path: np.savez(path, a=np.array([None]), u=np.zeros(1), checksum=np.zeros(1), settings=np.array("{}")),
    "own.h5": write_foreign_h5,
    "folder.h5": Path.mkdir,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused(tmp_path: Path, name: str) -> None:
    FOREIGN[name](tmp_path / name)
    with pytest.raises(XDError, match=name):
        write_dataset(SETTINGS, tmp_path / name)


def test_npz_files_say_their_settings_without_pickle(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    write_dataset(SETTINGS, tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz", allow_pickle=False) as file:
        assert json.loads(str(file["settings"])) == json.loads(describe(SETTINGS))
        same({name: file[name] for name in ("a", "u")}, expected)


def test_solutions_that_blow_up_are_not_written(tmp_path: Path) -> None:
    def make(indices: range) -> tuple[np.ndarray, np.ndarray]:
        u = np.zeros((len(indices), 4))
        u[1, 2] = np.nan
        return np.zeros_like(u), u

    with pytest.raises(XDError, match="u of sample 1, which is not finite"):
        store.fill(tmp_path / "d.h5", describe(SETTINGS), 4, 4, make)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "a_shape", "u_shape"),
    [
        (BurgersSettings(samples=3, size=64), (3, 64), (3, 64)),
        (DarcySettings(samples=3, size=5), (3, 5, 5), (3, 5, 5)),
        (
            NavierStokesSettings(samples=3, size=8, solver_size=16, time=0.1, step=0.01, record_every=0.05),
            (3, 8, 8),
            (3, 8, 8, 2),
        ),
    ],
)
def test_all_three_equations(tmp_path: Path, settings: Settings, a_shape: tuple[int, ...], u_shape: tuple[int, ...]) -> None:
    arrays = dataset(settings, tmp_path)
    assert (arrays["a"].shape, arrays["u"].shape) == (a_shape, u_shape)
    assert all(np.isfinite(array).all() and array.std() > 0 for array in arrays.values())


def test_names_tell_data_sets_apart() -> None:
    settings = [BurgersSettings(), BurgersSettings(viscosity=0.01), BurgersSettings(seed=1), DarcySettings(), DarcySettings(high=9)]
    made = [file_name(s) for s in settings]
    assert len(set(made)) == len(made)
    assert made[0].startswith("burgers-samples2048-size8192-seed0-")
    assert "viscosity0.01" in made[1]


def test_the_data_folder_is_given_or_in_the_environment_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDOPS_DATA", raising=False)
    assert data_folder() == Path("data/pde")
    monkeypatch.setenv("XDOPS_DATA", "elsewhere")
    assert data_folder() == Path("elsewhere/pde")
    assert data_folder(Path("given")) == Path("given/pde")
