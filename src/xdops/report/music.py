"""What a searched TCN became on music, and what it says: operators on a window beside the dilated network's, and a piano roll.

A layer with the mean filter w = 1/k is one matrix on a window, outputs by inputs: for a causal convolution of dilation d lines
below the diagonal, d apart. Does the search, which starts without dilation, find it?
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import nn

from xdops.operations import ShiftInvariantOperation
from xdops.report.operators import diverging, label
from xdops.report.result_plots import png
from xdops.report.style import FONT, INK, quiet
from xdops.reproduce.runs import finished_seeds, run_folder
from xdops.reproduce.sequences.networks import build_network
from xdops.reproduce.sequences.presets import JSB, PRESETS, Preset
from xdops.reproduce.sequences.problems import make_problem
from xdops.reproduce.table import Context, Row
from xdops.reproduce.tables.sequences import MUSIC, setting_of
from xdops.reproduce.tuning import settle
from xdops.search import Problem, load_weights
from xdops.storage.files import write_file

SEARCHED, DILATED = "undilated TCN XD", "TCN"
STEPS = 32  # of the window
PIECE = 3  # of the test part


def window_operator(filters: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Filters (k, H), the last entry the present, with equal weights as a matrix on a window, row t the output t."""
    mean, size = filters.mean(axis=0), filters.shape[1]
    matrix = np.zeros((steps, steps))
    for t in range(steps):
        for lag in range(min(size, t + 1)):
            matrix[t, t - lag] = mean[size - 1 - lag]
    return matrix


def convolution_filters(kernel: int, dilation: int) -> np.ndarray:
    """The taps of a causal convolution as filters."""
    filters = np.zeros((kernel, dilation * (kernel - 1) + 1))
    filters[np.arange(kernel), dilation * np.arange(kernel)] = 1
    return filters


def learned_filters(network: nn.Module) -> dict[str, np.ndarray]:
    """The rows a_j of every shift-invariant operation, by name."""
    with torch.no_grad():
        return {
            name: module.rows_of_taps()[0].real.numpy()
            for name, module in network.named_modules()
            if isinstance(module, ShiftInvariantOperation)
        }


def operators_figure(found: dict[str, np.ndarray], kernel: int) -> Figure:
    """A row per layer: how it began, what it became, what the dilated network has there, and how far back the filters look."""
    with rc_context(FONT):
        figure = Figure(figsize=(10.5, 2.1 * len(found)), layout="constrained")
        grid = figure.subplots(len(found), 4, squeeze=False, width_ratios=(1, 1, 1, 1.8))
        for i, (axes, (name, filters)) in enumerate(zip(grid, found.items(), strict=True)):
            level = i // 2
            matrices = (
                (convolution_filters(kernel, 1), "at the start, undilated"),
                (filters, "after the search"),
                (convolution_filters(kernel, 2**level), f"the dilated TCN: dilation {2**level}"),
            )
            for ax, (taps, title) in zip(axes, matrices, strict=False):
                diverging(ax, window_operator(taps))
                label(ax, title)
            axes[0].set_ylabel(name, fontsize=9, color=INK)
            lags = np.arange(filters.shape[1])
            for j, row in enumerate(filters):
                axes[3].plot(lags, np.abs(row)[::-1], linewidth=1.5, label=f"tap {j}")
            axes[3].axvline(2**level, color="#9ca3af", linestyle=":", linewidth=1)
            axes[3].set_title("|filter| by steps back (dotted: the dilation)", fontsize=9, color=INK)
            quiet(axes[3])
        grid[0][3].legend(frameon=False, fontsize=8)
    return figure


def piano_figure(roll: np.ndarray, probability: np.ndarray, title: str) -> Figure:
    """Notes as played, and the probability that each was given from the steps before: (steps, 88) both."""
    used = np.flatnonzero(roll.any(axis=0))
    low, high = max(0, used.min() - 3), used.max() + 4
    with rc_context(FONT):
        figure = Figure(figsize=(10.5, 5.2), layout="constrained")
        for ax, picture, name in zip(
            figure.subplots(2, 1, sharex=True), (roll, probability), ("played", "predicted from the steps before"), strict=True
        ):
            ax.imshow(
                picture[:, low:high].T, aspect="auto", origin="lower", cmap="Greys", vmin=0, vmax=1,
                interpolation="nearest", extent=(0.5, len(picture) + 0.5, low - 0.5, high - 0.5),
            )  # fmt: skip
            ax.set_title(name, loc="left", fontsize=10, color=INK)
            ax.set_ylabel("key of the piano")
        ax.set_xlabel("step")
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def draw_music(
    context: Context,
    home: Path,
    docs: Path,
    rows: Callable[[Context], Sequence[Row]] = MUSIC.rows,
    presets: dict[str, tuple[Preset, ...]] = PRESETS,
) -> list[Path]:
    """Both pictures of the first finished seed of the searched undilated TCN on JSB Chorales; home: the folder of the runs."""
    preset = next(p for p in presets[context.scale] if p.data == JSB)
    row = settle(home, next(r for r in rows(context) if r.method == SEARCHED and r.setting == setting_of(JSB, preset.part)))
    seeds = [s for s in finished_seeds(home, row) if (run_folder(home, row, s) / "result.json").exists()]
    if not seeds:
        return []
    problem = make_problem(preset, context.data_dir, seeds[0])
    network = build_network(preset, SEARCHED, problem, seeds[0]).eval()
    load_weights(run_folder(home, row, seeds[0]), network)
    figures = {
        "piano-roll": piano_figure(*predictions(network, problem), f"JSB Chorales, a test piece; {SEARCHED}, seed {seeds[0]}")
    }
    if found := learned_filters(network):
        figures["operators"] = operators_figure(found, preset.kernel)
    written = []
    for name, figure in figures.items():
        path = docs / "figures" / f"music-{context.scale}-{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, png(figure))
        written.append(path)
    return written


def predictions(network: nn.Module, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Notes and their predicted probabilities of a test piece, (steps, 88)."""
    batch = problem.test.batch(torch.tensor([min(PIECE, len(problem.test) - 1)]))
    with torch.no_grad():
        return batch.y[0].numpy(), network(batch.x)[0].T.sigmoid().numpy()
