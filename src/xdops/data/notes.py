"""What was understood of the data, in sentences for the user, each with how to overrule it."""

import numpy as np

from xdops.data.layout import MEANING
from xdops.data.task import Reading
from xdops.errors import several


def describe(
    reading: Reading,
    x: np.ndarray,
    y: np.ndarray,
    detected_layout: bool,
    detected_kind: bool,
    sizes: dict[str, int],
    how_split: str,
) -> tuple[str, ...]:
    request = reading.request
    grid = " x ".join(map(str, request.spatial))
    target = {
        "classification": f"{request.outputs} classes",
        "regression": several(request.outputs, "number"),
        "dense": f"{several(request.outputs, 'channel')} on the same grid",
    }[request.kind]
    layout = f"x {x.shape} read as {reading.layout}: {MEANING[request.dims]} of {grid}, {several(request.in_channels, 'channel')}"
    notes = [
        layout + (" (detected; --layout overrules)" if detected_layout else ""),
        f"y {y.shape} of {y.dtype}: {request.kind}, {target}" + (" (detected; --kind overrules)" if detected_kind else ""),
        f"{sizes['train']} training, {sizes['val']} validation, {sizes['test']} test examples: {how_split}",
    ]
    if request.kind == "regression" and np.array_equal(y, np.round(y)) and len(np.unique(y)) <= 100:
        notes.append("y holds whole numbers only: if they are classes, say --kind classification")
    return tuple(notes)


def describe_crops(reading: Reading) -> str:
    size = " x ".join(map(str, reading.request.spatial))
    how = "blended" if reading.request.kind == "dense" else "averaged"
    return f"trained on random crops of {size}; validated, tested and predicted at any size, in tiles that overlap and are {how}"
