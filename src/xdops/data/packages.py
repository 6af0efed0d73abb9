"""Public data that come inside of Python packages: files are found and read, the packages themselves are not imported.

aeon: labelled series of the UCR archive, in its text format. scikit-image: photographs and textures.
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
#: Points per side of a patch.
PATCH = 24
TEXTURES = ("brick", "grass", "gravel")
#: Whole photographs for each part: no patch of one is seen in training and asked for later.
PHOTOGRAPHS = {"train": ("astronaut", "coffee", "camera"), "val": ("coins",), "test": ("chelsea",)}
#: The camera moves by so many pixels along the diagonal while the shutter is open; then noise of this deviation is added.
SHAKEN, NOISE = 9, 0.01


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
    found = [patches(photograph(name)) for name in TEXTURES]
    labels = [np.full(len(part), name) for part, name in zip(found, TEXTURES, strict=True)]
    return {"all": (np.concatenate(found), np.concatenate(labels))}


def shaken_photographs() -> Arrays:
    """What a moving camera saw, and what it would have seen at rest, at half of the photographs' resolution."""
    rng = np.random.default_rng(0)
    parts: Arrays = {}
    for part, names in PHOTOGRAPHS.items():
        pairs = [shaken(halved(photograph(name)), rng) for name in names]
        x, y = (np.concatenate([patches(picture) for picture in pictures]) for pictures in zip(*pairs, strict=True))
        parts[part] = (x, y)
    return parts


def halved(picture: np.ndarray) -> np.ndarray:
    height, width = (side // 2 for side in picture.shape)
    return picture[: 2 * height, : 2 * width].reshape(height, 2, width, 2).mean(axis=(1, 3))


def shaken(picture: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The mean over the camera's way, where all of it is inside of the picture, and the picture in the middle of it."""
    height, width = (side - SHAKEN + 1 for side in picture.shape)
    seen = np.mean([picture[i : i + height, i : i + width] for i in range(SHAKEN)], axis=0)
    middle = SHAKEN // 2
    noise = rng.normal(scale=NOISE, size=seen.shape)
    return (seen + noise).astype(np.float32), picture[middle : middle + height, middle : middle + width].astype(np.float32)


def italian_power() -> Arrays:
    return read_series("ItalyPowerDemand")


def leaf_outlines() -> Arrays:
    return read_series("OSULeaf")


#: By what they are called.
FROM_PACKAGES: dict[str, Callable[[], Arrays]] = {
    "Italian power demand": italian_power,
    "leaf outlines": leaf_outlines,
    "textures": textures,
    "shaken photographs": shaken_photographs,
}
