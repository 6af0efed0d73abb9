"""What the first layer of a searched network became on permuted images, next to what it should have: un-permute, then convolve.

Per dimension, four pictures: |Q|, what M does before its Fourier transform; the permutation that undoes the images'; the layer with
its mean filter as a matrix, outputs by inputs, these in their true order; and the same of the layer that un-permutes and convolves.
Images read backwards, or from another row on, are as good to a network: the truth is shown shifted and reflected as fits best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from xdops.operations import XDOperation
from xdops.operations.dense import dense_operations
from xdops.report.operators import diverging, label
from xdops.report.result_plots import png
from xdops.report.style import FONT, INK
from xdops.reproduce.cifar import FIRST_LAYER, PERMUTED, SPACES, build_network, permutation_of
from xdops.reproduce.cifar.permutation_loss import first_matrices, mixing
from xdops.reproduce.runs import finished_seeds, run_folder
from xdops.reproduce.table import Context, Row
from xdops.reproduce.tables.cifar import rows
from xdops.reproduce.tuning import settle
from xdops.search import load_weights
from xdops.storage.files import write_file


@dataclass(frozen=True)
class Dimension:
    """One dimension of the layer."""

    name: str
    Q: np.ndarray  # |Q|, its columns in the order of the permuted images
    true_Q: np.ndarray
    A: np.ndarray  # the layer, outputs by inputs in their true order
    true_A: np.ndarray
    recovered: float  # share of rows of Q that are largest where the truth is
    at_start: float  # the same of the identity


def best_match(Q: np.ndarray, order: Sequence[int]) -> tuple[np.ndarray, float]:
    """Which row of the images each row of Q should look at, and the share of rows that do.

    order: row i of a permuted image is row order[i] of the image. The truth is row r for row r, up to a shift and a reflection,
    which are chosen so that most rows agree.
    """
    n = len(order)
    seen = np.asarray(order)[Q.argmax(axis=1)]
    choices = [(sign * np.arange(n) + shift) % n for sign in (1, -1) for shift in range(n)]
    truth = max(choices, key=lambda rows: int((rows == seen).sum()))
    return truth, float((truth == seen).mean())


def dimensions(
    operation: XDOperation, start: XDOperation, mixings: Sequence[np.ndarray], orders: Sequence[Sequence[int]]
) -> list[Dimension]:
    """start: the layer as it began, a plain convolution with the same mean filter."""
    sizes = [len(order) for order in orders]
    found = []
    for name, Q, order, now, before in zip(
        ("rows", "columns"), mixings, orders, dense_operations(operation, sizes), dense_operations(start, sizes), strict=True
    ):
        truth, recovered = best_match(Q, order)
        true_Q = (truth[:, None] == np.asarray(order)[None, :]).astype(float)
        ordered = np.argsort(order)
        A, true_A = now.A.real[:, ordered], (before.A.real @ true_Q)[:, ordered]
        found.append(Dimension(name, Q, true_Q, A, true_A, recovered, best_match(np.eye(len(order)), order)[1]))
    return found


def first_layer_figure(title: str, found: Sequence[Dimension]) -> Figure:
    with rc_context(FONT):
        figure = Figure(figsize=(10.5, 5.6), layout="constrained")
        grid = figure.subplots(len(found), 4)
        for axes, part in zip(grid, found, strict=True):
            for ax, matrix, name in (
                (axes[0], part.Q, f"|Q|: {part.recovered:.0%} in place ({part.at_start:.0%} at the start)"),
                (axes[1], part.true_Q, "the un-permutation"),
            ):
                ax.imshow(matrix, cmap="Blues", vmin=0, vmax=max(1.0, float(matrix.max())), interpolation="nearest")
                label(ax, name)
            for ax, matrix, name in (
                (axes[2], part.A, "the layer, inputs in true order"),
                (axes[3], part.true_A, "un-permute, then convolve"),
            ):
                diverging(ax, matrix)
                label(ax, name)
            axes[0].set_ylabel(f"along {part.name}", fontsize=10, color=INK)
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def describe_run(row: Row, folder: Path, seed: int) -> list[Dimension]:
    """The first layer of a finished run on permuted images."""
    backbone = str(row.setting["network"])
    network, beginning = (build_network(backbone, SPACES[row.method], 0.0, seed, row.settings["domain"]) for _ in range(2))
    load_weights(folder, network, "last")
    layer = FIRST_LAYER[backbone]
    operation, start = (net.get_submodule(layer) for net in (network, beginning))
    assert isinstance(operation, XDOperation)
    assert isinstance(start, XDOperation)
    order = permutation_of(seed)
    mixings = [mixing(m).detach().abs().numpy() for m in first_matrices(network, layer)]
    return dimensions(operation, start, mixings, (order.rows, order.columns))


def draw_first_layers(context: Context, home: Path, docs: Path, make_rows: Callable[[Context], Sequence[Row]] = rows) -> list[Path]:
    """A figure for each XD method on permuted images, of its first finished seed; home: the folder of the table's runs."""
    written = []
    for row in (settle(home, row) for row in make_rows(context)):
        xd = SPACES.get(row.method) == "xd" and row.setting["images"] == PERMUTED and row.seeds
        if not xd or not (seeds := finished_seeds(home, row)):
            continue
        folder = run_folder(home, row, seeds[0])
        if (folder / "diverged.json").exists():
            continue
        title = f"First layer of {row.setting['network']}, {row.method}, permuted images, seed {seeds[0]}"
        path = docs / "figures" / f"cifar-{context.scale}-{row.slug}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, png(first_layer_figure(title, describe_run(row, folder, seeds[0]))))
        written.append(path)
    return written
