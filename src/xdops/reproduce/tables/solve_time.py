"""Seconds per solution: the classical solver that made the data, and the searched network that replaces it (section 5)."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from xdops.backbones.request import Request
from xdops.convert import merge_
from xdops.pde.dataset import KINDS, Settings
from xdops.pde.navier_stokes import NavierStokesSettings
from xdops.reproduce.pde import BURGERS, DARCY, NAVIER_STOKES, Preset, build_network
from xdops.reproduce.pde.functions import GIVEN_FRAMES
from xdops.reproduce.table import Context, MeasuredRow, Row, Table

METRIC = "seconds per solution"
REPETITIONS = 5
#: The paper's full-scale solver of Navier-Stokes takes half an hour for one sample.
SAMPLES = {"burgers": 16, "darcy": 4, "navier-stokes": 1}
NETWORKS = ("FNO", "CNN", "CNN XD")


def time_solver(data: Settings, samples: int, seed: int) -> dict[str, float]:
    """The random fields that it starts from are made too, which is quick."""
    start = time.perf_counter()
    KINDS[type(data)].make(data, range(samples))
    return {METRIC: (time.perf_counter() - start) / samples}


def time_network(method: str, preset: Preset, grid: tuple[int, ...], channels: int, seed: int) -> dict[str, float]:
    """One batch of the training's size, after a training step, so that XD-operations are not the convolutions they start as."""
    request = Request("dense", channels, 1, grid)
    network = build_network(method, request, preset, seed)
    batch = torch.randn(preset.batch_size, *request.input_shape)
    _move(network, batch[:2])
    network.eval()
    if method.endswith("XD"):
        merge_(network)
    with torch.inference_mode():
        return {METRIC: _median(lambda: network(batch)) / len(batch)}


def _move(network: nn.Module, batch: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    network(batch).square().mean().backward()
    optimizer.step()


def _median(action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPETITIONS + 1):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def cases(scale: str) -> list[tuple[str, Preset, tuple[int, ...], int]]:
    """Equation, preset, the grid at its finest and the channels that a network sees."""
    found: list[tuple[str, Preset, tuple[int, ...], int]] = []
    for name, presets in (("burgers", BURGERS), ("darcy", DARCY)):
        preset = presets[scale]
        dims = len(preset.modes)
        found.append((name, preset, (max(preset.every),) * dims, 1 + dims))
    fluid = NAVIER_STOKES[scale][0]
    assert isinstance(fluid.data, NavierStokesSettings)
    frames = round(fluid.data.time / fluid.data.record_every) - GIVEN_FRAMES
    size = max(fluid.every)
    found.append(("navier-stokes", fluid, (size, size, frames), GIVEN_FRAMES + 3))
    return found


def rows(context: Context) -> list[Row]:
    found: list[Row] = []
    for name, preset, grid, channels in cases(context.scale):
        setting = {"equation": name, "grid": " x ".join(map(str, grid))}
        common = {"width": preset.width, "batch_size": preset.batch_size, "samples": SAMPLES[name]}
        measures: dict[str, Callable[[int], dict[str, float]]] = {"solver": partial(time_solver, preset.data, SAMPLES[name])}
        for method in NETWORKS:
            measures[method] = partial(time_network, method, preset, grid, channels)
        found += [
            MeasuredRow(method=method, setting=setting, seeds=(0,), settings=common, measure=measure)
            for method, measure in measures.items()
        ]
    return found


HOW = (
    "The solvers make the data of the tables above, at their own resolution and accuracy; networks run at the finest grid that "
    "they are trained on, in batches of the training's size, XD-operations merged."
)

SOLVE_TIME = Table(
    "solve-time",
    "Time per solution: the classical solver and the networks that replace it",
    'section 5, "one-to-two orders of magnitude faster than classical solvers"',
    METRIC,
    rows,
    notes={"laptop": HOW, "paper": HOW},
)
