"""Trained at one resolution, run at others without training: Burgers' equation, networks on 256 points asked on 512 and 1024."""

import dataclasses
from functools import partial
from pathlib import Path

import torch

from xdops.convert.resize import resize_
from xdops.pde.burgers import BurgersSettings
from xdops.reproduce.pde import BURGERS, Preset, build_network
from xdops.reproduce.table import Context, Judged, Row, SearchRow, Table
from xdops.reproduce.tables.pde import METRIC, prepare, problem_of, settings_of
from xdops.search import load_weights

#: A quarter of the laptop's steps: what is measured is how little is lost from one grid to another, not how small an error can be.
LAPTOP = dataclasses.replace(BURGERS["laptop"], data=BurgersSettings(samples=600, size=1024), train=500, held_out=0, epochs=20)
PRESETS = {"laptop": LAPTOP, "paper": BURGERS["paper"]}
TRAINED_AT = 256
ASKED_AT = (512, 1024)


def metric_at(resolution: int) -> str:
    return f"at {resolution}"


@torch.no_grad()
def judge(preset: Preset, method: str, data_dir: Path | None, folder: Path, seed: int) -> Judged:
    """The errors of the network in `folder` on finer grids of the same test samples."""
    points = preset.data.size
    _, request = problem_of(preset, points // TRAINED_AT, data_dir)
    errors = {}
    for resolution in ASKED_AT:
        network = build_network(method, request, preset, seed)
        load_weights(folder, network, "last")
        problem, _ = problem_of(preset, points // resolution, data_dir)
        finer = problem.test.batch(torch.arange(len(problem.test)))
        resize_(network, finer.x[:2])
        errors[metric_at(resolution)] = float(problem.metric.function(network.eval()(finer.x), finer.y))
    return Judged(errors, {})


def rows(context: Context) -> list[Row]:
    preset = PRESETS[context.scale]
    every = preset.data.size // TRAINED_AT
    return [
        SearchRow(
            method=method,
            setting={"trained at": TRAINED_AT},
            seeds=preset.seeds,
            settings={**settings_of(preset, method, every), "asked at": list(ASKED_AT)},
            prepare=partial(prepare, preset, every, method, context.data_dir),
            report="last",
            judge=partial(judge, preset, method, context.data_dir),
        )
        for method in preset.methods
    ]


MEANING = (
    "Relative L2 error of the test samples on the grid of training, and of the same networks asked on finer grids, without "
    "any training there: `xdops.resize_` carries XD-operations over as the operators that they are, Fourier layers keep their "
    "modes, and convolutions their taps, which then lie closer together. "
)

TABLE = Table(
    "resolution",
    "Burgers' equation: from one resolution to finer ones",
    "no counterpart",
    METRIC,
    rows,
    notes={
        "laptop": MEANING + "500 training samples and 20 epochs of 50 steps with 10 samples, width 16.",
        "paper": MEANING + "The networks of Table 8 at 256 points.",
    },
)
