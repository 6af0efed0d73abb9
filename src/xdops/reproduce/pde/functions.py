"""What is known and what is asked, as arrays on one grid, for each of the three equations.

The data are made by our own solvers, or read from the published files where the user has them in the data folder:
    burgers_data_R10.mat, piececonst_r421_N1024_smooth1.mat and ..._smooth2.mat (training, test),
    NavierStokes_V1e-4_N10000_T30.mat or ns_V1e-4_N10000_T30.mat, NavierStokes_V1e-5_N1200_T20.mat
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xdops.errors import XDError
from xdops.pde.burgers import BurgersSettings
from xdops.pde.darcy import DarcySettings
from xdops.pde.dataset import Settings, data_folder, dataset
from xdops.pde.navier_stokes import NavierStokesSettings
from xdops.pde.published import read_published
from xdops.pde.store import SamplesDone

#: Samples in the first of Darcy's published files, for training; those that are tested are the first ones of the second.
PUBLISHED_DARCY = 1024
#: Frames of the vorticity that a network is given; the rest it must predict.
GIVEN_FRAMES = 10


@dataclass(frozen=True)
class Functions:
    """Pairs of three parts. known: (N, channels, *grid); asked: (N, 1, *grid); places: (dims, *grid), the coordinates."""

    known_train: np.ndarray
    asked_train: np.ndarray
    known_validation: np.ndarray
    asked_validation: np.ndarray
    known_test: np.ndarray
    asked_test: np.ndarray
    places: np.ndarray

    @property
    def grid(self) -> tuple[int, ...]:
        return self.places.shape[1:]


def random_functions(data: Settings, every: int, samples: int = 4) -> Functions:
    """Noise on the grid that the data would have."""
    generator = np.random.default_rng(0)
    if isinstance(data, BurgersSettings):
        a, u = generator.normal(size=(2, samples, data.size))
        known, asked, places = _burgers(a, u, every)
    elif isinstance(data, DarcySettings):
        a, u = generator.normal(size=(2, samples, data.size, data.size))
        known, asked, places = _darcy(a, u, every)
    else:
        frames = round(data.time / data.record_every)
        known, asked, places = _navier_stokes(generator.normal(size=(samples, data.size, data.size, frames)), every)
    return Functions(known, asked, known, asked, known, asked, places)


def load_functions(
    data: Settings, train: int, test: int, every: int, data_dir: Path | None, progress: SamplesDone | None = None, held_out: int = 0
) -> Functions:
    """The first `train` samples for training and `test` others for testing, at every `every`-th grid point.

    held_out: so many of the training samples, the last ones, are for validation; testing is then on samples of a solver's run of
    its own, with another seed. Without, nothing is to be selected, and the test samples stand in the validation part's place.
    """
    if train < 1 or test < 1 or held_out >= train or train + (0 if held_out else test) > data.samples:
        raise XDError(
            f"{train} samples for training, {held_out} of them held out, and {test} for testing, of {data.samples}",
            "parts that do not overlap",
            f"samples={train + test}",
        )
    folder = data_folder(data_dir)
    known, asked, places = _pairs(data, folder, every, progress)
    if held_out:
        fresh = dataclasses.replace(data, samples=test, seed=data.seed + 1)
        known_test, asked_test, _ = _pairs(fresh, folder, every, progress)
        learned = train - held_out
        validation = known[learned:train], asked[learned:train]
        return Functions(known[:learned], asked[:learned], *validation, known_test, asked_test, places)
    tested = slice(PUBLISHED_DARCY, PUBLISHED_DARCY + test) if is_published(data, folder, DarcySettings) else slice(-test, None)
    return Functions(known[:train], asked[:train], known[tested], asked[tested], known[tested], asked[tested], places)


def _pairs(data: Settings, folder: Path, every: int, progress: SamplesDone | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known, what is asked, and where."""
    arrays = _arrays(data, folder, progress)
    a, u = arrays["a"], arrays["u"]
    if isinstance(data, BurgersSettings):
        return _burgers(a, u, every)
    if isinstance(data, DarcySettings):
        return _darcy(a, u, every)
    return _navier_stokes(u, every)


def _burgers(a: np.ndarray, u: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = _divided(a.shape[-1], every)
    return a[:, None, ::every], u[:, None, ::every], coordinates((2 * np.pi, size))


def _darcy(a: np.ndarray, u: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = _divided(a.shape[-1] - 1, every) + 1  # both ends are points
    grid = (slice(None), None, slice(None, None, every), slice(None, None, every))
    return a[grid], u[grid], coordinates((1.0, size), (1.0, size))


def _navier_stokes(u: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two dimensions of space and one of time: the given frames are channels, the same at every time that is asked for."""
    size, frames = _divided(u.shape[1], every), u.shape[-1] - GIVEN_FRAMES
    if frames < 1:
        raise XDError(
            f"{u.shape[-1]} frames of vorticity", f"more than the {GIVEN_FRAMES} that are given", f"time={2 * GIVEN_FRAMES}"
        )
    u = u[:, ::every, ::every]
    given = np.moveaxis(u[..., :GIVEN_FRAMES], -1, 1)[..., None]
    known = np.broadcast_to(given, (*given.shape[:-1], frames))
    return known, u[:, None, ..., GIVEN_FRAMES:], coordinates((1.0, size), (1.0, size), (1.0, frames))


def coordinates(*axes: tuple[float, int]) -> np.ndarray:
    """(dims, *grid): from 0 to the length of each axis, both ends included, as the published networks are given them."""
    lines = [np.linspace(0, length, points) for length, points in axes]
    return np.stack(np.meshgrid(*lines, indexing="ij")).astype(np.float32)


def _divided(points: int, every: int) -> int:
    if every < 1 or points % every:
        divisors = [d for d in range(1, points + 1) if points % d == 0]
        nearest = min(divisors, key=lambda d: abs(d - every))
        raise XDError(f"every {every}th of {points} points", f"a divisor of {points}", f"every={nearest}")
    return points // every


def _arrays(data: Settings, folder: Path, progress: SamplesDone | None) -> dict[str, np.ndarray]:
    """The published files if they are there and hold these data, else what our solvers make."""
    if names := _found(data, folder):
        parts = [read_published(folder / name) for name in names]
        return {key: np.concatenate([part[key] for part in parts]) for key in ("a", "u")}
    return dataset(data, folder, progress)


def is_published(data: Settings, folder: Path, kind: type = object) -> bool:
    """Whether these data, of this kind of equation, are read from the published files."""
    return isinstance(data, kind) and bool(_found(data, folder))


def _found(data: Settings, folder: Path) -> tuple[str, ...]:
    return next((names for names in _published_names(data) if all((folder / name).exists() for name in names)), ())


def _published_names(data: Settings) -> list[tuple[str, ...]]:
    """Only the paper's own settings can be found in the published files."""
    if data == BurgersSettings():
        return [("burgers_data_R10.mat",)]
    if data == DarcySettings():
        return [("piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat")]
    if data == NavierStokesSettings():
        return [("NavierStokes_V1e-4_N10000_T30.mat",), ("ns_V1e-4_N10000_T30.mat",)]
    if data == NavierStokesSettings(viscosity=1e-5, time=20.0):
        return [("NavierStokes_V1e-5_N1200_T20.mat",)]
    return []
