"""An operation drawn, for a notebook or a file."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from xdops.arguments import checked
from xdops.convert.edges import kept_edge
from xdops.errors import XDError
from xdops.operations import ShiftInvariantOperation, XDOperation
from xdops.operations.dense import dense_operations
from xdops.operations.resampling import ResampledOperation
from xdops.report.operators import TITLES, diverging, label
from xdops.report.style import INK
from xdops.storage.files import write_file


class Drawing:
    """A figure that notebooks show and `save` writes; `figure` is matplotlib's."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """As PNG."""
        write_file(Path(path), self._repr_png_())


@checked
def show(op: nn.Module, input_size: int | Sequence[int] | None = None) -> Drawing:
    """Draw an XD-operation: per dimension the matrix Re(K diag(L w) M) of its mean filter w, outputs by inputs, and |K|, |L|, |M|.

    A convolution is a band along the diagonal, a Fourier layer a few waves, a learned operation whatever it has become. Of a
    shift-invariant operation, the same at every position, the filter of each tap is drawn instead. input_size: the largest that
    the operation takes, unless given. What `merge_` and `resize_` have put in an operation's place is drawn as that operation.
    """
    op = kept_edge(op) or op
    op = op.operation if isinstance(op, ResampledOperation) else op
    if isinstance(op, ShiftInvariantOperation):
        return Drawing(_filters(op))
    if not isinstance(op, XDOperation):
        raise XDError(
            f"a {type(op).__name__}",
            "an XD-operation",
            "show(model.get_submodule(name)), name as in xdops.novelty(model)",
        )
    sizes = [axis.longest for axis in op.axes] if input_size is None else input_size
    sizes = (sizes,) * len(op.axes) if isinstance(sizes, int) else sizes
    if len(sizes) != len(op.axes):
        raise XDError(f"input_size {input_size}", f"{len(op.axes)} numbers, one per dimension", "no input_size")
    for dim, (axis, m) in enumerate(zip(op.axes, sizes, strict=True)):
        axis.check(m, dim)
    return Drawing(_matrices(op, sizes))


def _matrices(op: XDOperation, sizes: Sequence[int]) -> Figure:
    dims = len(op.axes)
    figure = Figure(figsize=(9, 2.4 * dims + 0.3), layout="constrained")
    grid = figure.subplots(dims, 4, squeeze=False, width_ratios=(1, 1, 0.5, 1))
    for row, title, dense in zip(grid, TITLES[dims], dense_operations(op, sizes), strict=True):
        diverging(row[0], dense.A.real)
        label(row[0], "Re(K diag(L w) M)")
        for axes, matrix, name in ((row[1], dense.K, "|K|"), (row[2], dense.L, "|L|"), (row[3], dense.M, "|M|")):
            axes.imshow(matrix, cmap="viridis", vmin=0, interpolation="nearest", aspect="auto")
            label(axes, name)
        row[0].set_ylabel(title, fontsize=9, color=INK)
    return figure


def _filters(op: ShiftInvariantOperation) -> Figure:
    figure = Figure(figsize=(6, 2.0 * len(op.windows) + 0.3), layout="constrained")
    with torch.no_grad():
        for axes, rows, title in zip(
            figure.subplots(len(op.windows), 1, squeeze=False)[:, 0], op.rows_of_taps(), TITLES[len(op.windows)], strict=True
        ):
            _lines(axes, rows.real.tolist(), title)
    return figure


def _lines(axes: Axes, rows: Sequence[Sequence[float]], title: str) -> None:
    """One line per tap."""
    for tap, values in enumerate(rows):
        axes.plot(values, marker=".", lw=1, label=f"tap {tap}")
    axes.set_title(f"what each tap has become, {title}", fontsize=9, color=INK)
    axes.legend(fontsize=7, ncols=4)
