"""Pictures of operations: what they were before the search, and what they have become.

Per dimension an operation with the mean filter w = 1/k is a matrix A = K diag(L w) M, outputs by inputs, of which the real part is
shown: for a convolution a band along the diagonal. The same w before and after, so that what differs is the architecture alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from xdops.operations import XDOperation
from xdops.operations.dense import DenseOperation
from xdops.report.style import INK

TITLES = {1: ("along the signal",), 2: ("along rows (H)", "along columns (W)"), 3: ("depth (D)", "height (H)", "width (W)")}


def input_sizes(network: nn.Module, example: Tensor) -> dict[str, tuple[int, ...]]:
    """The grid that each XD-operation of the network sees."""
    sizes: dict[str, tuple[int, ...]] = {}
    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, XDOperation):

            def note(module: nn.Module, inputs: tuple[Tensor, ...], name: str = name) -> None:
                sizes[name] = tuple(inputs[0].shape[2:])

            hooks.append(module.register_forward_pre_hook(note))
    was_training = network.training
    try:
        with torch.no_grad():
            network.eval()(example)
    finally:
        network.train(was_training)
        for hook in hooks:
            hook.remove()
    return sizes


def matrices_figure(before: Sequence[DenseOperation], after: Sequence[DenseOperation]) -> Figure:
    """Per dimension a row: A before, A after, and |K|, |L|, |M| after."""
    dims = len(before)
    figure = Figure(figsize=(10.5, 2.3 * dims), layout="constrained")
    grid = figure.subplots(dims, 5, squeeze=False)
    for row, title, old, new in zip(grid, TITLES[dims], before, after, strict=True):
        for axes, matrix, name in ((row[0], old.A.real, "A before"), (row[1], new.A.real, "A after")):
            diverging(axes, matrix)
            label(axes, name)
        for axes, matrix, name in ((row[2], new.K, "|K|"), (row[3], new.L, "|L|"), (row[4], new.M, "|M|")):
            axes.imshow(matrix, cmap="viridis", vmin=0, interpolation="nearest", aspect="auto" if name == "|L|" else "equal")
            label(axes, name)
        row[0].set_ylabel(title, fontsize=9, color=INK)
    return figure


def reach_figure(before: Sequence[DenseOperation], after: Sequence[DenseOperation], outputs: Sequence[tuple[int, int]]) -> Figure:
    """Images only: which input pixels each chosen output pixel looks at, Re(A_1[r] (x) A_2[c]), before (top) and after (bottom)."""
    figure = Figure(figsize=(2.0 * len(outputs) + 0.5, 4.2), layout="constrained")
    grid = figure.subplots(2, len(outputs), squeeze=False)
    pictures = [[np.outer(ops[0].A[r], ops[1].A[c]).real for r, c in outputs] for ops in (before, after)]
    for row, line, name in zip(grid, pictures, ("before", "after"), strict=True):
        for axes, picture, (r, c) in zip(row, line, outputs, strict=True):
            diverging(axes, picture)
            axes.plot(
                c * picture.shape[1] / len(after[1].A), r * picture.shape[0] / len(after[0].A), "o", mfc="none", mec="black", ms=9
            )
            label(axes, f"output ({r}, {c})" if name == "before" else "")
        row[0].set_ylabel(name, fontsize=10, color=INK)
    return figure


def diverging(axes: Axes, matrix: np.ndarray) -> None:
    """Blue negative, white zero, red positive, on the matrix's own scale: what matters is where it is large."""
    limit = float(np.abs(matrix).max()) or 1.0
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")


def some_outputs(operation: Sequence[DenseOperation]) -> list[tuple[int, int]]:
    """Four outputs, spread over the image."""
    height, width = len(operation[0].A), len(operation[1].A)
    return [(int(height * a), int(width * b)) for a, b in ((0.2, 0.25), (0.4, 0.7), (0.6, 0.3), (0.8, 0.8))]


def label(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
