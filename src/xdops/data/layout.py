"""Which axis of an array is what: (N, length), (N, H, W, 3), ... becomes (N, channels, *spatial)."""

import numpy as np

from xdops.errors import XDError

#: Letters: N examples, C channels, then the grid: L length; H, W height and width; D depth.
LAYOUTS = ("NL", "NCL", "NLC", "NHW", "NCHW", "NHWC", "NDHW", "NCDHW", "NDHWC")
MEANING = {1: "signals", 2: "images", 3: "volumes"}
#: A side is taken for channels if the shortest other side is at least this many times longer.
CHANNEL_RATIO = 4
#: Two to four colours are channels even of a tiny image.
COLOURS = 4


def guess_layout(shape: tuple[int, ...]) -> str:
    """The likeliest layout of an array of this shape; what it guesses is printed, and --layout overrules it."""
    sides = shape[1:]
    if len(shape) == 2:
        return "NL"
    if len(shape) == 3:
        return "NCL" if _channels(sides, 0) else "NLC" if _channels(sides, 1) else "NHW"
    if len(shape) == 4:
        return "NCHW" if _channels(sides, 0) else "NHWC" if _channels(sides, 2) else "NDHW"
    if len(shape) == 5:
        return "NCDHW" if _channels(sides, 0) or not _channels(sides, 3) else "NDHWC"
    raise XDError(
        f"x of shape {shape}",
        "2 to 5 dimensions: signals (N, length) or (N, channels, length), images (N, H, W) or (N, channels, H, W), volumes",
        "x.reshape(N, channels, length)",
    )


def _channels(sides: tuple[int, ...], axis: int) -> bool:
    others = min(side for i, side in enumerate(sides) if i != axis)
    few = sides[axis] <= COLOURS and len(sides) > 2
    return sides[axis] * (2 if few else CHANNEL_RATIO) <= others or (sides[axis] == 1 and others > 1)


def check_layout(layout: str, shape: tuple[int, ...], name: str) -> str:
    """A layout that was asked for, refused where the array cannot have it."""
    layout = layout.upper()
    if layout not in LAYOUTS or len(layout) != len(shape):
        fitting = [known for known in LAYOUTS if len(known) == len(shape)]
        raise XDError(
            f"layout {layout} for {name} of shape {shape}",
            f"one of {', '.join(fitting) or 'none fits'}",
            "omit --layout to have it guessed",
        )
    return layout


def channels_second(array: np.ndarray, layout: str) -> np.ndarray:
    """(N, channels, *spatial), a missing channel axis added."""
    if "C" not in layout:
        return array[:, None]
    return np.moveaxis(array, layout.index("C"), 1)


def spatial_of(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    return tuple(side for side, letter in zip(shape, layout, strict=True) if letter not in "NC")
