"""Convolutions of one point converted or left alone: the same networks, settings and seeds. It decides the default."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from xdops.backbones.operator import operator_cnn
from xdops.backbones.request import Request
from xdops.backbones.residual import ResidualCNN
from xdops.convert import XDConfig
from xdops.data.digits import SPLIT, digit_images
from xdops.data.mnist import load_mnist
from xdops.data.own import DataSettings, task_from_arrays
from xdops.pde.burgers import BurgersSettings
from xdops.reproduce.pde import BURGERS
from xdops.reproduce.table import Context, Prepared, Row, SearchRow, Table
from xdops.reproduce.tables.domains import ERROR, searched
from xdops.reproduce.tables.pde import problem_of
from xdops.search import OptimizerSettings, Problem, ScheduleSettings, SearchSettings, Split
from xdops.spaces import SpaceSettings, apply

#: How the convolutions of one point are called in the table: converted or not, or nothing is.
LEFT, CONVERTED, BACKBONE = "XD, 1 x 1 left alone", "XD, 1 x 1 converted", "backbone"
METHODS = (BACKBONE, LEFT, CONVERTED)
SEEDS = (0, 1, 2)

FUNCTIONS = dataclasses.replace(BURGERS["laptop"], data=BurgersSettings(samples=500, size=256), train=400, held_out=0, epochs=20)
SIDE, IMAGES, HELD_OUT = 16, 2_000, 1_000  # of fewer points the backbone halves nothing, and has no shortcut to convert


@dataclasses.dataclass(frozen=True)
class PointwiseProblem:
    """One problem: its data, judged on what is held out of the training samples, its backbone, and how it is trained."""

    data: Callable[[Path | None], tuple[Problem, Request]]
    backbone: Callable[[Request], nn.Module]
    depth: int
    search: SearchSettings


@cache
def pixels(data_dir: Path | None) -> tuple[Problem, Request]:
    """The permuted digits, pixel by pixel: signals of 64 points."""
    x, y = digit_images(permuted=True)
    settings = DataSettings(layout="NL", kind="classification", split=SPLIT)
    task = task_from_arrays({"all": (x.reshape(len(x), -1), y)}, "permuted digits", settings)
    assert task.problem.validation is not None
    return dataclasses.replace(task.problem, test=task.problem.validation, metric=ERROR), task.request


@cache
def images(data_dir: Path | None) -> tuple[Problem, Request]:
    """MNIST's training digits averaged down, their rows and columns in another order."""
    digits = load_mnist(data_dir)
    count = IMAGES + HELD_OUT
    x = torch.tensor(digits.x_train[:count], dtype=torch.float32)[:, None] / 255
    x = (F.adaptive_avg_pool2d(x, SIDE) - 0.1307) / 0.3081
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.randperm(SIDE, generator=generator) for _ in range(2))
    x, y = x[:, :, rows][..., columns].contiguous(), torch.tensor(digits.y_train[:count], dtype=torch.long)
    judged = Split(x[IMAGES:], y[IMAGES:])
    return Problem(Split(x[:IMAGES], y[:IMAGES]), judged, judged, F.cross_entropy, ERROR), Request(
        "classification", 1, 10, (SIDE, SIDE)
    )


def functions(data_dir: Path | None) -> tuple[Problem, Request]:
    return problem_of(FUNCTIONS, 2, data_dir)


def adam(epochs: int, batch_size: int, lr: float) -> SearchSettings:
    step = OptimizerSettings("adam", lr)
    return SearchSettings(epochs, batch_size, weights=step, architecture=step, schedule=ScheduleSettings("cosine"))


PROBLEMS: Mapping[str, PointwiseProblem] = {
    "permuted digits, pixel by pixel": PointwiseProblem(pixels, ResidualCNN, 3, adam(20, 32, 3e-3)),
    f"permuted MNIST, {SIDE} x {SIDE}": PointwiseProblem(images, ResidualCNN, 3, adam(8, 64, 3e-3)),
    "Burgers 128": PointwiseProblem(
        functions, lambda request: operator_cnn(request, FUNCTIONS.width, FUNCTIONS.kernel), 1, FUNCTIONS.search("CNN XD")
    ),
}


def build_network(compared: PointwiseProblem, method: str, request: Request, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = compared.backbone(request)
        if method != BACKBONE:
            config = XDConfig(depth=compared.depth, pointwise=method == CONVERTED)
            apply("xd", network, torch.zeros(2, *request.input_shape), SpaceSettings(config))
    return network


def prepare(compared: PointwiseProblem, method: str, data_dir: Path | None, seed: int) -> Prepared:
    problem, request = compared.data(data_dir)
    return Prepared(problem, build_network(compared, method, request, seed), compared.search, {"method": method})


def settings_of(name: str, method: str) -> dict[str, Any]:
    compared = PROBLEMS[name]
    more = {} if method == BACKBONE else {"depth": compared.depth, "pointwise": method == CONVERTED}
    return searched(compared.search, **more)


def rows(context: Context) -> list[Row]:
    return [
        SearchRow(
            method=method,
            setting={"problem": name},
            seeds=SEEDS,
            settings=settings_of(name, method),
            prepare=partial(prepare, compared, method, context.data_dir),
            report="last",
        )
        for name, compared in PROBLEMS.items()
        for method in METHODS
    ]


TABLE = Table(
    "pointwise",
    "Convolutions of one point: converted or left alone",
    "no counterpart",
    "error on held-out training samples",
    rows,
    percent=True,
    notes={
        "laptop": "Networks in which shortcuts or channel mixing are 1 x 1 convolutions; XD-operations in place of all layers "
        "or of all but these, at the same settings, none of them tuned, after the last epoch. Share of wrong classes; relative L2 "
        "error of the equation. 719 digits and 20 epochs; 2,000 images and 8 epochs; 400 samples and 20 epochs. The same at both "
        "scales. They would be left alone by default if nothing were lost by it, within a standard deviation, on all three; on "
        "Burgers' equation it is, so `convert_` converts them. `xdops search` leaves them alone (`XDConfig(pointwise=False)`).",
        "paper": "The same as at laptop scale.",
    },
)
