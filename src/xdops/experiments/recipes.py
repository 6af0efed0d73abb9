"""Settings that are sensible before anything is tuned: what a flag that is not given stands for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from xdops.backbones.request import TaskKind
from xdops.data.digits import digits_task
from xdops.data.own import DataSettings, load_task
from xdops.data.task import Task
from xdops.errors import XDError
from xdops.experiments.ranges import Values


@dataclass(frozen=True)
class TrainingRecipe:
    backbone: str
    epochs: int
    batch_size: int
    lr: float  # Adam, with a cosine down to zero
    arch_lr: float  # Adam, following the same schedule
    own: Mapping[str, Values] = field(default_factory=dict)  # by space, what is not the same for all: its own best
    seeds: int = 3


RECIPES: dict[TaskKind, TrainingRecipe] = {
    "classification": TrainingRecipe("auto", epochs=40, batch_size=64, lr=3e-3, arch_lr=3e-3),
    "regression": TrainingRecipe("auto", epochs=40, batch_size=64, lr=3e-3, arch_lr=3e-3),
    "dense": TrainingRecipe("auto", epochs=100, batch_size=20, lr=1e-3, arch_lr=1e-3),
    "next-step": TrainingRecipe("auto", epochs=40, batch_size=8, lr=1e-3, arch_lr=1e-3),
    "sequence-class": TrainingRecipe("auto", epochs=40, batch_size=16, lr=3e-3, arch_lr=1e-3),
}

#: For the embedded digits: step sizes chosen on the validation part of the permuted ones, for every space among the same 16, by
#:     xdops search permuted-digits --trials 16 --whole-trials --ranges src/xdops/experiments/digits.toml
#: which trains all of them to the end. (When most were given up early, the backbone ended with 0.018, and 2 points less.)
DIGITS = TrainingRecipe(
    "small",
    epochs=20,
    batch_size=32,
    lr=3e-2,
    arch_lr=1e-2,
    own={
        "backbone": {"lr": 0.078},
        "darts": {"lr": 0.044, "arch_lr": 0.034},
        "xd": {"lr": 0.0044, "arch_lr": 0.0013},
    },
    seeds=5,  # enough for the verdict to speak of other trainings
)

EMBEDDED = {"permuted-digits": True, "digits": False}  # name -> permuted


def find_task(data: str, settings: DataSettings) -> tuple[Task, TrainingRecipe]:
    """The embedded data of that name, or the user's own file or folder."""
    if data in EMBEDDED and not Path(data).exists():
        own = {one.name: value for one in fields(settings) if (value := getattr(settings, one.name)) != one.default}
        if own:
            flags = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in own.items())
            raise XDError(f"{flags} with {data}, whose arrays and split are fixed", "a file of yours", f"xdops search {data} alone")
        return digits_task(permuted=EMBEDDED[data]), DIGITS
    task = load_task(Path(data), settings)
    return task, RECIPES[task.kind]
