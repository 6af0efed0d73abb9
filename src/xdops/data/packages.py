"""Public data that come inside of Python packages: files are found and read, the packages themselves are not imported.

aeon: labelled series of the UCR archive, in its text format. scikit-image: photographs of surfaces.
    pip install --no-deps aeon scikit-image
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from matplotlib.image import imread

from xdops.data.split import Arrays
from xdops.errors import XDError

INSTALL = "pip install --no-deps aeon scikit-image"
#: Points per side of a patch, of which one in EVERY is taken: all would take long, and neighbours are much alike.
PATCH, EVERY = 12, 4
TEXTURES = ("brick", "grass", "gravel")


def package_file(package: str, path: str) -> Path:
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / path).is_file():
            return Path(place) / path
    raise XDError(f"no file {path} of a package {package}", "the package, which holds these data", INSTALL)


def read_series(name: str) -> Arrays:
    """All series of an archive's set, those published for training and for testing together: (N, length), classes."""
    parts = [_parse(package_file("aeon", f"datasets/data/{name}/{name}_{part}.ts")) for part in ("TRAIN", "TEST")]
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return {"all": (x, y)}


def _parse(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A line per series: numbers with commas, a colon, the class."""
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
        series = [line.rsplit(":", 1) for line in lines[start + 1 :] if line.strip()]
        x = np.array([[float(v) for v in numbers.split(",")] for numbers, _ in series], dtype=np.float32)
    except (StopIteration, ValueError) as error:
        raise XDError(f"{path} ({error})", "series of one length with a class each, after @data", INSTALL) from error
    return x, np.array([label.strip() for _, label in series])


def photograph(name: str) -> np.ndarray:
    """(height, width), grey, from 0 to 1."""
    pixels = imread(package_file("skimage", f"data/{name}.png"))
    values = pixels.astype(np.float32) / (255 if pixels.dtype.kind in "ui" else 1)
    return values[..., :3].mean(axis=-1) if values.ndim == 3 else values


def patches(picture: np.ndarray, size: int = PATCH) -> np.ndarray:
    """(N, size, size): squares side by side."""
    rows, columns = (side // size for side in picture.shape)
    tiled = picture[: rows * size, : columns * size].reshape(rows, size, columns, size)
    return tiled.swapaxes(1, 2).reshape(-1, size, size)


def textures() -> Arrays:
    """Which of three surfaces a patch shows."""
    found = [patches(photograph(name))[::EVERY] for name in TEXTURES]
    labels = [np.full(len(part), name) for part, name in zip(found, TEXTURES, strict=True)]
    return {"all": (np.concatenate(found), np.concatenate(labels))}


def italian_power() -> Arrays:
    return read_series("ItalyPowerDemand")


def afternoons() -> Arrays:
    """A day's second twelve hours, from its first."""
    days, _ = italian_power()["all"]
    return {"all": (days[:, :12], days[:, 12:])}


def leaf_outlines() -> Arrays:
    return read_series("OSULeaf")


#: By what they are called.
FROM_PACKAGES: dict[str, Callable[[], Arrays]] = {
    "Italian power demand": italian_power,
    "leaf outlines": leaf_outlines,
    "textures": textures,
    "afternoons": afternoons,
}
