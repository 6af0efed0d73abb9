"""A task from the user's own arrays, with everything checked before any work is done."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.backbones.request import Request, TaskKind
from xdops.data.arrays import ArrayFile, open_arrays
from xdops.data.checks import (
    check_classes,
    check_finite,
    check_range,
    check_scaled,
    check_shape,
    check_single,
    check_told_apart,
    check_varied,
)
from xdops.data.layout import channels_second, spatial_of
from xdops.data.notes import describe, describe_crops
from xdops.data.ragged import LENGTH, RAGGED, is_ragged, load_ragged
from xdops.data.scaling import Scaling
from xdops.data.settings import DataSettings
from xdops.data.split import PARTS, Arrays, check_fractions, divide
from xdops.data.targets import as_grids, as_vectors, encode_classes, guess_kind
from xdops.data.task import Reading, Task, layout_of, make_problem
from xdops.errors import XDError, listed, several
from xdops.search.settings import check_seed

__all__ = ["DataSettings", "load_task", "task_from_arrays"]

#: Fewer examples than this cannot be divided and judged.
LEAST_EXAMPLES = 10
#: Fewer points per side than this show nothing.
LEAST_CROP = 8


@checked
def load_task(path: Path, settings: DataSettings) -> Task:
    """The task that the file at `path` holds."""
    path = Path(path)
    check_fractions(settings.split)
    check_seed(settings.split_seed)
    file = open_arrays(path)
    if is_ragged(file):
        return load_ragged(file, path.name, settings)
    if settings.kind in RAGGED:
        raise XDError(
            f"--kind {settings.kind} for {path}, which has no array {LENGTH!r}",
            "sequences one after the other in x, and the length of each",
            "length = [len(s) for s in sequences], x = numpy.concatenate(sequences)",
        )
    return task_from_arrays(read_parts(file, settings), path.name, settings)


def read_parts(file: ArrayFile, settings: DataSettings) -> Arrays:
    """x and y, or their parts by the endings _train, _val, _test, as the file has them."""
    x, y = settings.x_name, settings.y_name
    if x in file.names and f"{x}_train" in file.names:
        raise XDError(f"{file.path} with both {x!r} and {x + '_train'!r}", "one array, or parts of it", "save only what is meant")
    if x in file.names or f"{x}_train" not in file.names:
        missing = [name for name in (x, y) if name not in file.names]
        if missing:
            raise XDError(
                f"no array {' and '.join(map(repr, missing))} in {file.path}, which has: {listed(file.names)}",
                f"{x!r} and {y!r}, or {x + '_train'!r}, {y + '_train'!r}, {x + '_test'!r}, ...; "
                f"or {x!r} and {LENGTH!r}, sequences one after the other and how long each is",
                "--x-name and --y-name say what they are called",
            )
        return {"all": (file.read(x), file.read(y))}
    parts = {p: (f"{x}_{p}", f"{y}_{p}") for p in PARTS if f"{x}_{p}" in file.names or f"{y}_{p}" in file.names}
    if "val" in parts and "test" not in parts:
        raise XDError(
            f"{file.path} with a validation part but no {x}_test", f"{x}_test and {y}_test", f"save one array {x} to have it split"
        )
    return {p: (file.read(nx), file.read(ny)) for p, (nx, ny) in parts.items()}


@checked
def task_from_arrays(arrays: Arrays, name: str, settings: DataSettings) -> Task:
    """Check, understand, split and scale."""
    first, (x, y) = next(iter(arrays.items()))
    check_shape(x, named(settings.x_name, first))
    check_shape(y, named(settings.y_name, first))
    layout = layout_of(x, settings.layout, named(settings.x_name, first))
    kind = settings.kind or guess_kind(y, x.shape, layout)
    checked = {part: check_part(part, pair, x.shape, layout, kind, settings) for part, pair in arrays.items()}
    check_agreement(checked, settings.y_name)
    total = sum(len(targets) for _, targets in checked.values())
    if total < LEAST_EXAMPLES:
        raise XDError(several(total, "example"), f"at least {LEAST_EXAMPLES}", "more data")
    parts, how_split = divide(checked, kind, settings.split, settings.split_seed)
    check_varied(parts["train"][0], f"the training part of {settings.x_name}", "input")
    if kind != "classification":
        check_single(parts["train"][1], f"the training part of {settings.y_name}")
        parts = {part: (inputs, targets.astype(np.float32)) for part, (inputs, targets) in parts.items()}
        check_varied(parts["train"][1], f"the training part of {settings.y_name}", "target")
    reading = make_reading(parts["train"], kind, layout, x.shape, check_classes(parts, kind, settings.y_name))
    check_told_apart(parts["train"][0], reading.x_scaling, f"the training part of {settings.x_name}")
    if reading.y_scaling is not None:
        check_told_apart(parts["train"][1], reading.y_scaling, f"the training part of {settings.y_name}")
    tensors = {
        part: (scaled(reading, inputs), encoded(reading, targets, settings.y_name)) for part, (inputs, targets) in parts.items()
    }
    sizes = {part: len(targets) for part, (_, targets) in parts.items()}
    notes = describe(reading, x, y, settings.layout is None, settings.kind is None, sizes, how_split)
    if settings.crop is not None:
        reading = cropped(reading, settings.crop)
        notes += (describe_crops(reading),)
    return Task(name, reading, make_problem(tensors, reading), notes)


def named(name: str, part: str) -> str:
    return name if part == "all" else f"{name}_{part}"


def check_part(
    part: str,
    pair: tuple[np.ndarray, np.ndarray],
    first_shape: tuple[int, ...],
    layout: str,
    kind: TaskKind,
    settings: DataSettings,
) -> tuple[np.ndarray, np.ndarray]:
    """x with channels second, and targets, of one part; refused where it does not fit the first part."""
    x, y = pair
    x_name, y_name = named(settings.x_name, part), named(settings.y_name, part)
    if x.dtype.kind not in "biuf" or x.shape[1:] != first_shape[1:]:
        raise XDError(
            f"{x_name} of shape {x.shape} and type {x.dtype} beside a first part of shape {first_shape}",
            "numbers, with the same channels and grid in every part",
            "resample, crop or pad to one size",
        )
    for array, name in ((x, x_name), (y, y_name)):
        check_shape(array, name)
        check_finite(array, name)
        check_range(array, name, target=name == y_name and kind != "classification")
    if kind == "classification":
        targets = encode_classes(y, y_name)
    elif kind == "regression":
        targets = as_vectors(y, y_name)
    else:
        targets = as_grids(y, x.shape, layout, y_name)
    if len(x) != len(targets):
        raise XDError(
            f"{x_name} with {several(len(x), 'example')} and {y_name} with {len(targets)}",
            "as many targets as inputs",
            "the examples come first: (N, ...)",
        )
    return channels_second(x, layout), targets


def check_agreement(parts: Arrays, y_name: str) -> None:
    """Targets of one shape in every part: others would be broadcast, and a figure reported that means nothing."""
    shapes = {part: y.shape[1:] for part, (_, y) in parts.items()}
    if len(set(shapes.values())) > 1:
        told = ", ".join(f"{named(y_name, part)} with targets of shape {shape}" for part, shape in shapes.items())
        raise XDError(told, "the same shape in every part", "one layout of the targets for all parts")


def make_reading(
    train: tuple[np.ndarray, np.ndarray],
    kind: TaskKind,
    layout: str,
    x_shape: tuple[int, ...],
    classes: tuple[str, ...] | tuple[int, ...],
) -> Reading:
    """Everything that is learned about the data itself comes from the training part."""
    x, y = train
    request = Request(kind, x.shape[1], len(classes) if kind == "classification" else y.shape[1], spatial_of(x_shape, layout))
    floor = 0.0
    if kind == "dense":
        # A target grid of zeros would make every relative error infinite: divide by at least a hundredth of the usual norm.
        norms = np.linalg.norm(y.reshape(len(y), -1).astype(np.float64), axis=1)
        floor = max(1e-2 * float(np.sqrt((norms**2).mean())), 1e-12)
    return Reading(request, layout, Scaling.of(x), None if kind == "classification" else Scaling.of(y), classes, floor)


def cropped(reading: Reading, crop: int) -> Reading:
    """For a network that sees windows of `crop` points per side, or the whole of sides that are shorter."""
    grid = reading.request.spatial
    size = tuple(min(crop, side) for side in grid)
    if crop < LEAST_CROP or size == grid:
        raise XDError(
            f"--crop {crop} for a grid of {' x '.join(map(str, grid))}",
            f"at least {LEAST_CROP}, and less than the longest side",
            f"--crop {max(LEAST_CROP, max(grid) // 2)}, or none",
        )
    return dataclasses.replace(reading, request=dataclasses.replace(reading.request, spatial=size), cropped=True)


def scaled(reading: Reading, x: np.ndarray) -> Tensor:
    """Refused where the training part says nothing about how large values are."""
    values = reading.x_scaling.apply(x)
    check_scaled(values, "x")
    return torch.from_numpy(np.ascontiguousarray(values))


def encoded(reading: Reading, y: np.ndarray, name: str) -> Tensor:
    """Class numbers, or the targets themselves."""
    if reading.y_scaling is None:
        return torch.from_numpy(np.searchsorted(np.asarray(reading.classes), y).astype(np.int64))
    check_scaled(reading.y_scaling.apply(y), name)
    return torch.from_numpy(np.ascontiguousarray(y, dtype=np.float32))
