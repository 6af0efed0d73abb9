"""Data sets made by the solvers: generated once, kept in a file that is found again by its settings, and read ever after."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from xdops.pde.burgers import BurgersSettings, make_burgers
from xdops.pde.darcy import DarcySettings, make_darcy
from xdops.pde.navier_stokes import WORKING_POINTS, NavierStokesSettings, make_navier_stokes
from xdops.pde.store import NamedArrays, SamplesDone, check_store, fill, read, tidy
from xdops.storage.room import check_room_for

FORMAT = 1
FOLDER_VARIABLE = "XDOPS_DATA"

Settings = BurgersSettings | DarcySettings | NavierStokesSettings


@dataclass(frozen=True)
class EquationKind:
    name: str
    make: Callable[[Any, range], tuple[Any, Any]]  # (settings, indices) -> a, u
    chunk: Callable[[Any], int]  # settings -> samples made at once, and made again when interrupted
    seconds: Callable[[Any], float]  # settings -> about how long a sample takes on one core
    points: Callable[[Any], int]  # settings -> numbers per sample: what is kept, and
    working: Callable[[Any], int]  # what is computed with


def _burgers_seconds(s: BurgersSettings) -> float:
    steps = s.steps or 4300 * s.time / s.period  # of amplitudes about 2, on the first grid
    return 0.02 + 512 * 1.6e-7 * steps + 1e-7 * s.size


def _navier_stokes_chunk(s: NavierStokesSettings) -> int:
    return max(1, WORKING_POINTS // s.solver_size**2)


def _navier_stokes_seconds(s: NavierStokesSettings) -> float:
    """A step takes a while by itself, however small the grid, which is shared by the samples that are advanced together."""
    alone = 2e-4 / min(s.samples, _navier_stokes_chunk(s))
    return max(2e-7 * s.solver_size**2, alone) * s.time / s.step


KINDS: dict[type, EquationKind] = {
    BurgersSettings: EquationKind(
        "burgers", make_burgers, lambda _: 64, _burgers_seconds, lambda s: 2 * s.size, lambda s: 4 * s.size
    ),
    DarcySettings: EquationKind(
        "darcy", make_darcy, lambda _: 16,
        lambda s: 2e-6 * (s.solver_size or s.size) ** 2 * (1 + (s.solver_size or s.size) / 500),
        lambda s: 2 * s.size**2,
        lambda s: 20 * (s.solver_size or s.size) ** 2,
    ),
    NavierStokesSettings: EquationKind(
        "navier-stokes", make_navier_stokes, _navier_stokes_chunk, _navier_stokes_seconds,
        lambda s: s.size**2 * (1 + round(s.time / s.record_every)),
        lambda s: 20 * s.solver_size**2 + s.size**2 * round(s.time / s.record_every),
    ),
}  # fmt: skip


def estimate(settings: Settings) -> float:
    """Seconds that making the data will take, to a factor of a few."""
    return settings.samples * KINDS[type(settings)].seconds(settings)


def dataset(settings: Settings, folder: Path, progress: SamplesDone | None = None) -> NamedArrays:
    """`a` and `u` for these settings, from their file in `folder`, which is made if it is not there or not complete."""
    return write_dataset(settings, folder / file_name(settings), progress)


def write_dataset(settings: Settings, path: Path, progress: SamplesDone | None = None) -> NamedArrays:
    """The same in a file of your choice, .h5 or .npz. A file that holds anything else is refused, never overwritten."""
    kind = KINDS[type(settings)]
    if path.exists():
        tidy(path, describe(settings))
    else:
        together = min(settings.samples, kind.chunk(settings))
        check_room_for(f"{together} samples at once, arrays", (together, kind.working(settings)), 8)
        check_store(path, 4 * settings.samples * kind.points(settings))
        fill(path, describe(settings), settings.samples, kind.chunk(settings), partial(kind.make, settings), progress)
    return read(path, describe(settings))[1]


def data_folder(given: Path | None = None) -> Path:
    """Where generated data live: `pde` under the folder given, or under $XDOPS_DATA, or under `data` in the current folder."""
    return (given or Path(os.environ.get(FOLDER_VARIABLE) or "data")) / "pde"


def file_name(settings: Settings) -> str:
    """Kind, the settings that tell data sets apart at a glance, and a hash of all of them."""
    always = ("samples", "size", "seed")
    shown = [f for f in fields(settings) if f.name in always or getattr(settings, f.name) != f.default]
    words = [f"{f.name.replace('_', '-')}{getattr(settings, f.name)}" for f in shown]
    digest = hashlib.sha256(describe(settings).encode()).hexdigest()[:8]
    return "-".join([KINDS[type(settings)].name, *words, digest]) + ".h5"


def describe(settings: Settings) -> str:
    """All that determines a data set, as JSON, as it stands in its file."""
    return json.dumps({"format": FORMAT, "kind": KINDS[type(settings)].name, "settings": asdict(settings)}, sort_keys=True)
