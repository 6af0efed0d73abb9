"""Trained at one resolution, run at others without training, beside training there: Burgers' equation on three grids."""

import dataclasses
from functools import partial
from pathlib import Path

import torch

from xdops.convert.resize import resize_
from xdops.pde.burgers import BurgersSettings
from xdops.reproduce.pde import BURGERS, Preset, build_network
from xdops.reproduce.table import Context, Judged, Row, SearchRow, Table
from xdops.reproduce.tables.pde import prepare, problem_of, settings_of, sketch
from xdops.search import load_weights

#: A quarter of the laptop's steps: what is measured is how little is lost from one grid to another, not how small an error can be.
LAPTOP = dataclasses.replace(
    BURGERS["laptop"],
    data=BurgersSettings(samples=600, size=1024),
    train=500,
    held_out=0,
    epochs=20,
    methods=("CNN", "FNO", "CNN XD"),
)
PRESETS = {"laptop": LAPTOP, "paper": BURGERS["paper"]}
RESOLUTIONS = (256, 512, 1024)


def metric_at(resolution: int) -> str:
    return f"error at {resolution}"


@torch.no_grad()
def judge(preset: Preset, method: str, trained_at: int, data_dir: Path | None, folder: Path, seed: int) -> Judged:
    """The errors of the network in `folder` on every grid of the same test samples."""
    points = preset.data.size
    _, request = problem_of(preset, points // trained_at, data_dir)
    errors = {}
    for resolution in RESOLUTIONS:
        network = build_network(method, request, preset, seed)
        load_weights(folder, network, "last")
        problem, _ = problem_of(preset, points // resolution, data_dir)
        asked = problem.test.batch(torch.arange(len(problem.test)))
        resize_(network, asked.x[:2])
        errors[metric_at(resolution)] = float(problem.metric.function(network.eval()(asked.x), asked.y))
    return Judged(errors, {})


def row(preset: Preset, method: str, trained_at: int, data_dir: Path | None) -> SearchRow:
    every = preset.data.size // trained_at
    return SearchRow(
        method=method,
        setting={"trained at": trained_at},
        seeds=preset.seeds,
        settings={**settings_of(preset, method, every, data_dir), "asked at": list(RESOLUTIONS)},
        prepare=partial(prepare, preset, every, method, data_dir),
        report="last",
        judge=partial(judge, preset, method, trained_at, data_dir),
        sketch=partial(sketch, preset, every, method),
        makes_data=True,
    )


def rows(context: Context) -> list[Row]:
    preset = PRESETS[context.scale]
    return [row(preset, method, trained_at, context.data_dir) for trained_at in RESOLUTIONS for method in preset.methods]


MEANING = (
    "Relative L2 error of the test samples. Every network is trained on one grid and asked on all, without any training there: "
    "`xdops.resize_` carries XD-operations over as the operators that they are, Fourier layers keep their modes, and convolutions "
    "their taps, which then lie closer together or further apart. "
)

TABLE = Table(
    "resolution",
    "Burgers' equation: from one resolution to others",
    "no counterpart",
    metric_at(RESOLUTIONS[0]),
    rows,
    notes={
        "laptop": MEANING + "500 training samples and 20 epochs of 50 steps with 10 samples, width 16.",
        "paper": MEANING + "The networks of Table 8.",
    },
)
