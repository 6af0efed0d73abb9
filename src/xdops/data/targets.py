"""What is to be predicted: classes, numbers, or a grid. Detected from y, printed, and overridable."""

import numpy as np

from xdops.backbones.request import TaskKind
from xdops.data.layout import channels_second, spatial_of
from xdops.errors import XDError

#: Beyond these, whole numbers become others on their way.
LARGEST_LABEL, LARGEST_FLOAT_LABEL = 2**63 - 1, 2.0**53


def column(y: np.ndarray) -> np.ndarray:
    """(N, 1), and MATLAB's (1, N), are (N,)."""
    if y.ndim == 2 and 1 in y.shape:
        return y.reshape(-1)
    return y


def guess_kind(y: np.ndarray, x_shape: tuple[int, ...], layout: str) -> TaskKind:
    """Integers, truth values and strings are classes; floats on x's own grid are dense; other floats are regression."""
    if column(y).ndim == 1 and y.dtype.kind in "biuUS":
        return "classification"
    if y.dtype.kind == "f" and _grid_layout(y, x_shape, layout) is not None:
        return "dense"
    if y.dtype.kind in "fiu" and 1 <= y.ndim <= 2:
        return "regression"
    raise XDError(
        f"y of shape {y.shape} and type {y.dtype}, for x of shape {x_shape} read as {layout}",
        "integers (N,) for classification, floats (N,) or (N, k) for regression, or floats on the grid of x for dense prediction",
        "reshape y, or say how to read x with --layout",
    )


def _grid_layout(y: np.ndarray, x_shape: tuple[int, ...], layout: str) -> str | None:
    """The layout in which y lies on x's grid, if any: without channels, or with channels where x has them."""
    spatial = spatial_of(x_shape, layout)
    bare = layout.replace("C", "")
    with_channels = layout if "C" in layout else "NC" + bare[1:]
    for candidate in (bare, with_channels):
        if len(candidate) == y.ndim and spatial_of(y.shape, candidate) == spatial:
            return candidate
    return None


def encode_classes(y: np.ndarray, name: str, otherwise: str = "--kind regression") -> np.ndarray:
    """(N,) labels, whole numbers or strings. otherwise: what to try if they are none."""
    y = column(y)
    if y.ndim != 1 or y.dtype.kind == "c":
        raise XDError(
            f"{name} of shape {y.shape} and type {y.dtype}",
            "one class per example: shape (N,)",
            "y.argmax(axis=1) if it is one-hot",
        )
    if y.dtype.kind == "f":
        if not np.array_equal(y, np.round(y)):
            raise XDError(f"{name} with fractions, as classes", "whole numbers", f"{otherwise}, or y.astype(int)")
        if len(y) and np.abs(y).max() > LARGEST_FLOAT_LABEL:
            raise XDError(
                f"{name} with labels up to {np.abs(y).max():g}, as floats, which merges some", "labels up to 2^53", "y.astype(int)"
            )
        return y.astype(np.int64)
    if y.dtype.kind == "u" and len(y) and int(y.max()) > LARGEST_LABEL:
        raise XDError(f"{name} with labels up to {y.max()}", f"labels up to {LARGEST_LABEL}", "smaller numbers, or text")
    return as_text(y, name) if y.dtype.kind in "US" else y.astype(np.int64)


def as_text(y: np.ndarray, name: str) -> np.ndarray:
    """Labels as text; bytes are UTF-8."""
    try:
        text = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y.astype(str)
        "".join(text.tolist()).encode()
        return text
    except UnicodeError as error:
        raise XDError(f"{name} with labels that are no text ({error})", "UTF-8 text, or numbers", "y.astype(int)") from error


def as_vectors(y: np.ndarray, name: str) -> np.ndarray:
    """(N, k) regression targets."""
    y = column(y)
    if y.dtype.kind not in "biuf" or y.ndim > 2:
        raise XDError(
            f"{name} of shape {y.shape} and type {y.dtype}", "numbers of shape (N,) or (N, k)", "--kind classification for labels"
        )
    return y[:, None] if y.ndim == 1 else y


def as_grids(y: np.ndarray, x_shape: tuple[int, ...], layout: str, name: str) -> np.ndarray:
    """(N, channels, *spatial) targets on the grid of x."""
    found = _grid_layout(y, x_shape, layout)
    if found is None or y.dtype.kind not in "biuf":
        raise XDError(
            f"{name} of shape {y.shape} and type {y.dtype}",
            f"a grid like that of x, {spatial_of(x_shape, layout)}",
            "--kind, --layout",
        )
    return channels_second(y, found)
