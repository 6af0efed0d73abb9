"""`xdops data`: make the data of the equations that the paper learns to solve."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from xdops.cli import terminal
from xdops.measuring.duration import check_duration, lasting
from xdops.pde.burgers import BurgersSettings
from xdops.pde.darcy import DarcySettings
from xdops.pde.dataset import Settings, data_folder, estimate, file_name, write_dataset
from xdops.pde.navier_stokes import NavierStokesSettings
from xdops.storage.lock import lock_file

INTERRUPTED = 130  # what the shell sees after Ctrl-C

# None stands for what the help text of each says better than "{None}|INT (default: None)".
MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
MaybeFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
MaybeFolder = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]


#: Seconds that users are told of beforehand.
WORTH_SAYING = 120.0


@dataclass(frozen=True, kw_only=True)
class Destination(ABC):
    """Where the data go, which is the same for all equations."""

    out: MaybeFile = None
    """Write this file, .npz or .h5, with arrays a and u. Default: a file named after its settings in the data folder."""
    data_dir: MaybeFolder = None
    """The data folder, in whose subfolder pde generated data are kept. Default: $XDOPS_DATA, or data."""

    however_long: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Begin even if it will take more than a day."""

    @abstractmethod
    def settings(self) -> Settings: ...

    def run(self) -> int:
        settings = self.settings()
        path = self.out or data_folder(self.data_dir) / file_name(settings)
        console = terminal.console(soft_wrap=True)
        if not path.exists():
            seconds = estimate(settings)
            check_duration(seconds, self.however_long)
            if seconds > WORTH_SAYING:
                console.print(f"This takes about {lasting(seconds)}.")
        try:
            with _alone(path), Display(console, settings.samples) as display:
                arrays = write_dataset(settings, path, display.update)
        except KeyboardInterrupt:
            console.print("Stopped; finished samples are kept. Run the same command again to continue.")
            return INTERRUPTED
        console.print(f"{path}: " + ", ".join(f"{name} {array.shape}" for name, array in arrays.items()))
        return 0


def _alone(path: Path) -> AbstractContextManager[None]:
    """To make a file by oneself: another process that is making it is named, where a table that needs the data would wait."""
    return lock_file(path) if path.parent.is_dir() and not path.exists() else nullcontext()


@dataclass(frozen=True, kw_only=True)
class Burgers(Destination):
    """Burgers' equation: from u at time 0 (array a) to u at time 1 (array u).

    u_t + u u_x = viscosity u_xx, periodic; a ~ N(0, 625 (-Laplace + 25)^-2). Both arrays are (samples, size). The published data
    have a period of 2 pi, as here, not the unit interval that the text states.

    examples:
      xdops data burgers                                                the published size, into the data folder
      xdops data burgers --samples 16 --size 1024 --seed 0 --out b.npz
      xdops data burgers --viscosity 0.01 --size 2048
    """

    samples: int = BurgersSettings.samples
    """How many. The paper trains on the first 1000 and tests on the last 100."""
    size: int = BurgersSettings.size
    """Points per sample. A seed gives the same functions at all sizes."""
    seed: int = BurgersSettings.seed
    """Of the random initial fields."""
    viscosity: float = BurgersSettings.viscosity
    """The smaller, the steeper the fronts."""
    time: float = BurgersSettings.time
    """When u is recorded."""
    period: float = BurgersSettings.period
    """Length of the interval."""
    steps: MaybeInt = None
    """Steps in time. Default: as many as accuracy needs."""

    def settings(self) -> BurgersSettings:
        return BurgersSettings(self.samples, self.size, self.seed, self.viscosity, self.time, self.period, self.steps)


@dataclass(frozen=True, kw_only=True)
class Darcy(Destination):
    """Darcy flow: from a permeability of two values (array a) to the pressure (array u).

    The equation is -div(a grad u) = 1 on the unit square, with u = 0 on its boundary; a is high where N(0, (-Laplace + 9)^-2) is
    positive, else low. Both arrays are (samples, size, size), the boundary included.

    examples:
      xdops data darcy                                            the published size, into the data folder: some minutes, 1.6 GB
      xdops data darcy --samples 16 --size 85 --seed 0 --out d.npz
      xdops data darcy --size 85 --solver-size 421                the accuracy of 421 x 421 points, every 5th of them kept
    """

    samples: int = DarcySettings.samples
    """How many. The paper trains on 1000 and tests on 100."""
    size: int = DarcySettings.size
    """Points per side. A seed gives the same fields at all sizes."""
    seed: int = DarcySettings.seed
    """Of the random fields."""
    high: float = DarcySettings.high
    """Permeability where the field is positive."""
    low: float = DarcySettings.low
    """Permeability elsewhere."""
    solver_size: MaybeInt = None
    """Points per side of the grid that is solved on; solver-size - 1 is a multiple of size - 1. Default: size."""

    def settings(self) -> DarcySettings:
        return DarcySettings(self.samples, self.size, self.seed, self.high, self.low, self.solver_size)


@dataclass(frozen=True, kw_only=True)
class NavierStokes(Destination):
    """Navier-Stokes: from the vorticity at time 0 (array a) to its course (array u).

    w_t + (velocity . grad) w = viscosity Laplace w + forcing on the unit torus; a ~ N(0, 7^3 (-Laplace + 49)^-2.5). a is
    (samples, size, size), u is (samples, size, size, times).

    examples:
      xdops data navier-stokes --samples 16 --solver-size 64 --step 0.01 --time 10 --out n.npz        some seconds
      xdops data navier-stokes --viscosity 1e-5 --time 20 --however-long   the published size: weeks on a laptop, resumable
    """

    samples: int = NavierStokesSettings.samples
    """How many. The paper trains on 1000 and tests on 200."""
    size: int = NavierStokesSettings.size
    """Points per side that are recorded."""
    solver_size: int = NavierStokesSettings.solver_size
    """Points per side of the grid that is solved on, a multiple of size."""
    seed: int = NavierStokesSettings.seed
    """Of the random initial fields."""
    viscosity: float = NavierStokesSettings.viscosity
    """The smaller, the more turbulent."""
    time: float = NavierStokesSettings.time
    """The last time that is recorded."""
    step: float = NavierStokesSettings.step
    """Of the solver. One that is too long to be stable is refused, with the bound."""
    record_every: float = NavierStokesSettings.record_every
    """Time between records, a multiple of the step."""

    def settings(self) -> NavierStokesSettings:
        return NavierStokesSettings(
            samples=self.samples, size=self.size, solver_size=self.solver_size, seed=self.seed, viscosity=self.viscosity,
            time=self.time, step=self.step, record_every=self.record_every,
        )  # fmt: skip


#: `xdops data burgers | darcy | navier-stokes`.
Data = (
    Annotated[Burgers, tyro.conf.subcommand("burgers")]
    | Annotated[Darcy, tyro.conf.subcommand("darcy")]
    | Annotated[NavierStokes, tyro.conf.subcommand("navier-stokes")]
)


class Display:
    """A bar with the time left on a terminal; elsewhere a line for every tenth."""

    def __init__(self, console: Console, samples: int) -> None:
        self.console = console
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("samples"), TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=samples)
        self.started = False
        self.tenth = 0

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, done: int, total: int) -> None:
        if not self.started and done:
            self.console.print(f"{done} of {total} samples are there; going on.")
            self.bar.reset(self.task, completed=done)
        elif not self.console.is_terminal and 10 * done // total > self.tenth:
            self.console.print(f"{done} of {total} samples")
        self.started, self.tenth = True, 10 * done // total
        self.bar.update(self.task, completed=done)
