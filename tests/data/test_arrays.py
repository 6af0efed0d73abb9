"""Arrays are read from every format, and nothing is ever unpickled."""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from xdops.data.arrays import open_arrays
from xdops.errors import XDError

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
Y = np.array([0, 1, 1, 0])


def npz(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def npy_folder(folder: Path, **arrays: np.ndarray) -> Path:
    (folder / "data").mkdir()
    for name, array in arrays.items():
        np.save(folder / "data" / f"{name}.npy", array)
    return folder / "data"


def hdf5(folder: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(folder / "data.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return folder / "data.h5"


def mat5(folder: Path, **arrays: np.ndarray) -> Path:
    scipy.io.savemat(folder / "data.mat", arrays)
    return folder / "data.mat"


def mat73(folder: Path, **arrays: np.ndarray) -> Path:
    """As MATLAB writes it: a 512-byte header, then HDF5 with dimensions reversed."""
    path = folder / "data.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file[name] = array.T
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    with open(path, "r+b") as raw:
        raw.write(header)
    return path


FORMATS = [npz, npy_folder, hdf5, mat5, mat73]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_gives_back_names_values_and_axis_order(write, tmp_path: Path) -> None:
    file = open_arrays(write(tmp_path, x=X, y=Y))
    assert sorted(file.names) == ["x", "y"]
    np.testing.assert_array_equal(file.read("x"), X)
    np.testing.assert_array_equal(file.read("y").reshape(-1), Y)


@pytest.mark.parametrize("write", FORMATS)
def test_a_missing_array_is_answered_with_what_is_there(write, tmp_path: Path) -> None:
    with pytest.raises(XDError, match=r"'labels'.*one of x, y"):
        open_arrays(write(tmp_path, x=X, y=Y)).read("labels")


def test_class_names_are_read_from_npz_and_hdf5(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "dog"])
    assert open_arrays(npz(tmp_path, y=names)).read("y").tolist() == ["cat", "dog", "dog"]
    with h5py.File(tmp_path / "names.h5", "w") as file:
        file["y"] = ["cat", "dog", "dog"]
    assert open_arrays(tmp_path / "names.h5").read("y").tolist() == ["cat", "dog", "dog"]


def test_arrays_in_hdf5_groups_are_found_by_their_path(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "deep.hdf5", "w") as file:
        file["recordings/ecg"] = X
    np.testing.assert_array_equal(open_arrays(tmp_path / "deep.hdf5").read("recordings/ecg"), X)


def test_sparse_matlab_matrices_are_read_dense(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "s.mat", {"x": scipy.sparse.csc_matrix(np.eye(3))})
    np.testing.assert_array_equal(open_arrays(tmp_path / "s.mat").read("x"), np.eye(3))


class Bomb:
    """Runs code when unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("write", [npz, npy_folder])
def test_pickled_objects_are_refused_and_their_code_never_runs(write, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    path = write(tmp_path, x=np.array([Bomb(target)] * 3, dtype=object))
    with pytest.raises(XDError, match="never unpickled"):
        open_arrays(path).read("x")
    assert not target.exists()


def test_matlab_cells_and_structs_are_refused(tmp_path: Path) -> None:
    cells = np.empty(2, dtype=object)
    cells[:] = [np.zeros(2), np.zeros(3)]
    path = mat5(tmp_path, x=cells, s={"a": 1})
    for name in ("x", "s"):
        with pytest.raises(XDError, match="arrays of numbers"):
            open_arrays(path).read(name)


@pytest.mark.parametrize("write", [npz, hdf5, mat5, mat73])
def test_a_truncated_file_is_called_unreadable(write, tmp_path: Path) -> None:
    path = write(tmp_path, x=np.random.default_rng(0).normal(size=(50, 20)), y=np.arange(50))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(XDError, match="cannot be read"):
        open_arrays(path).read("x")


@pytest.mark.parametrize("packed", [False, True])
def test_a_matlab_file_without_its_last_arrays_is_called_cut_off_and_not_one_without_them(packed: bool, tmp_path: Path) -> None:
    arrays = {name: np.random.default_rng(0).normal(size=50) for name in ("x", "y")}
    scipy.io.savemat(tmp_path / "d.mat", arrays, do_compression=packed)
    whole = (tmp_path / "d.mat").read_bytes()
    first = 128 + 8 + int.from_bytes(whole[132:136], sys.byteorder)
    for size in (132, first - 30, first - 1, first + 3, first + 8, len(whole) - 1):
        (tmp_path / "d.mat").write_bytes(whole[:size])
        with pytest.raises(XDError, match=f"the file ends at byte {size:,}, within an array"):
            open_arrays(tmp_path / "d.mat")


def test_unknown_endings_missing_files_and_empty_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    (tmp_path / "empty").mkdir()
    for name, message in (("data.csv", "unknown format .csv"), ("none.npz", "does not exist"), ("empty", "holds no .npy")):
        with pytest.raises(XDError, match=message):
            open_arrays(tmp_path / name)
