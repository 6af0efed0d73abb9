"""The published files, small ones written here in both of MATLAB's formats."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from xdops.errors import XDError
from xdops.pde.published import read_published

RANDOM = np.random.default_rng(0)
BURGERS = {"a": RANDOM.standard_normal((5, 16)), "u": RANDOM.standard_normal((5, 16)), "a_x": np.zeros((5, 16))}
DARCY = {"coeff": RANDOM.standard_normal((5, 7, 7)), "sol": RANDOM.standard_normal((5, 7, 7)), "Kcoeff": np.zeros((5, 7, 7))}
NAVIER_STOKES = {
    "a": RANDOM.standard_normal((3, 8, 8)).astype(np.float32),
    "u": RANDOM.standard_normal((3, 8, 8, 4)).astype(np.float32),
    "t": np.arange(4.0)[None],
}


def save_7(path: Path, arrays: dict[str, np.ndarray]) -> None:
    scipy.io.savemat(path, arrays)


def save_7_3(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As MATLAB does: HDF5 behind a header of 512 bytes, axes in reverse, book-keeping beside the arrays."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_group("#refs#")
        for name, array in arrays.items():
            file[name] = array.T
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(512))


SAVE = {"version 7": save_7, "version 7.3": save_7_3}


@pytest.mark.parametrize("save", SAVE.values(), ids=SAVE)
@pytest.mark.parametrize(
    ("arrays", "a", "u"), [(BURGERS, "a", "u"), (DARCY, "coeff", "sol"), (NAVIER_STOKES, "a", "u")], ids=["burgers", "darcy", "ns"]
)
def test_all_published_layouts_are_read(tmp_path: Path, save: Callable, arrays: dict[str, np.ndarray], a: str, u: str) -> None:
    save(tmp_path / "data.mat", arrays)
    found = read_published(tmp_path / "data.mat")
    assert list(found) == ["a", "u"]
    for name, original in (("a", a), ("u", u)):
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], arrays[original].astype(np.float32))


@pytest.mark.parametrize("save", SAVE.values(), ids=SAVE)
def test_files_without_the_arrays_say_what_they_have(tmp_path: Path, save: Callable) -> None:
    save(tmp_path / "data.mat", {"x": np.zeros((2, 2)), "y": np.zeros((2, 2))})
    with pytest.raises(XDError, match=r"data\.mat with x, y; expected a and u or coeff and sol"):
        read_published(tmp_path / "data.mat")


@pytest.mark.parametrize(
    ("a", "u"), [((5, 16), (4, 16)), ((5, 7, 8), (5, 7, 8)), ((5, 16), (5, 16, 3)), ((5, 7, 7), (5, 7, 7, 3, 2)), ((1, 5), (5, 1))]
)
def test_shapes_that_do_not_fit_are_refused(tmp_path: Path, a: tuple[int, ...], u: tuple[int, ...]) -> None:
    save_7(tmp_path / "data.mat", {"a": np.zeros(a), "u": np.zeros(u)})
    with pytest.raises(XDError, match="shapes"):
        read_published(tmp_path / "data.mat")


@pytest.mark.parametrize("save", SAVE.values(), ids=SAVE)
def test_truncated_and_missing_files_are_refused(tmp_path: Path, save: Callable) -> None:
    save(tmp_path / "data.mat", BURGERS)
    (tmp_path / "cut.mat").write_bytes((tmp_path / "data.mat").read_bytes()[:900])
    with pytest.raises(XDError, match=r"cut\.mat, which cannot be read"):
        read_published(tmp_path / "cut.mat")
    with pytest.raises(XDError, match=r"none\.mat, which is not a file"):
        read_published(tmp_path / "none.mat")
