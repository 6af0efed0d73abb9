"""A task from sequences of different lengths: `x` holds them one after the other, `length` says how long each is.

What is predicted is the next step of x itself, or, with one label per sequence in `y`, its class at the last step. Networks see the
past alone, so that what a sequence is padded with never matters.
"""

import numpy as np
import torch
from torch import Tensor

from xdops.backbones.request import Request, TaskKind
from xdops.data.arrays import ArrayFile
from xdops.data.checks import check_classes, check_finite, check_range, check_scaled, check_told_apart
from xdops.data.scaling import Scaling
from xdops.data.settings import DataSettings
from xdops.data.split import PARTS, split_indices
from xdops.data.targets import column, encode_classes
from xdops.data.task import Reading, Task
from xdops.errors import XDError, several
from xdops.search import Problem, Sequences
from xdops.search.examples import check_lengths

LENGTH = "length"
RAGGED: tuple[TaskKind, ...] = ("next-step", "sequence-class")
LEAST_SEQUENCES = 10

RaggedPart = tuple[list[np.ndarray], np.ndarray | None]  # sequences (T, channels), and a label for each


def is_ragged(file: ArrayFile) -> bool:
    return any(name in file.names for name in (LENGTH, *(f"{LENGTH}_{part}" for part in PARTS)))


def load_ragged(file: ArrayFile, name: str, settings: DataSettings) -> Task:
    """Read, check, understand, split and scale."""
    if LENGTH in file.names and f"{LENGTH}_train" in file.names:
        raise XDError(
            f"{file.path} with both {LENGTH!r} and '{LENGTH}_train'", "one array, or parts of it", "save only what is meant"
        )
    endings = [""] if LENGTH in file.names else [f"_{part}" for part in PARTS if f"{LENGTH}_{part}" in file.names]
    labelled = settings.y_name + endings[0] in file.names
    kind = settings.kind or ("sequence-class" if labelled else "next-step")
    if kind not in RAGGED:
        raise XDError(f"--kind {kind} for sequences of different lengths", f"one of {', '.join(RAGGED)}", f"--kind {RAGGED[0]}")
    if settings.layout is not None:
        raise XDError("--layout for sequences of different lengths", "x of shape (steps, channels)", "no --layout")
    if settings.crop is not None:
        raise XDError("--crop for sequences of different lengths", "whole sequences", "no --crop")
    given = {ending.removeprefix("_") or "all": read_part(file, ending, kind, settings) for ending in endings}
    total = sum(len(sequences) for sequences, _ in given.values())
    if total < LEAST_SEQUENCES:
        raise XDError(several(total, "sequence"), f"at least {LEAST_SEQUENCES}", "more data, or long sequences cut into pieces")
    channels = {sequence.shape[1] for sequences, _ in given.values() for sequence in sequences}
    if len(channels) > 1:
        raise XDError(f"parts with {sorted(channels)} channels", "the same channels in every part", "--x-name")
    parts, how = divide(given, settings)
    reading = make_reading(parts, kind, settings.y_name)
    train, validation, test = (sequences_of(reading, parts[part]) for part in PARTS)
    goal = reading.objective()
    return Task(name, reading, Problem(train, validation, test, goal.loss, goal.metric), describe(reading, parts, settings, how))


def read_part(file: ArrayFile, ending: str, kind: TaskKind, settings: DataSettings) -> RaggedPart:
    """The sequences of one part, checked, and their labels if these are what is predicted."""
    x_name, y_name = settings.x_name + ending, settings.y_name + ending
    x, length = file.read(x_name), file.read(LENGTH + ending)
    if x.dtype.kind not in "biuf" or x.ndim not in (1, 2):
        raise XDError(f"{x_name} of shape {x.shape} and type {x.dtype}", "numbers (steps,) or (steps, channels)", "--x-name")
    if x.size == 0:
        raise XDError(f"{x_name} of shape {x.shape}, with nothing in it", "sequences of at least one step", "another array")
    lengths = whole_numbers(length, LENGTH + ending)
    x = by_step(x, lengths)
    check_finite(x, x_name, "step")
    check_range(x, x_name, target=False)
    check_lengths(lengths, len(x), x_name)
    if kind == "next-step" and min(lengths) < 2:
        raise XDError(
            f"sequence {lengths.index(min(lengths))} of {x_name}, {min(lengths)} step long",
            "at least two steps, to predict the second",
            "drop sequences of a single step",
        )
    sequences = np.split(x, np.cumsum(lengths)[:-1])
    if kind == "next-step":
        return sequences, None
    labels = column(file.read(y_name))
    if labels.ndim and len(labels) != len(lengths):
        given = f"{y_name} of shape {labels.shape} for {several(len(lengths), 'sequence')}"
        raise XDError(given, "one label per sequence", "--kind next-step, or --y-name")
    return sequences, encode_classes(labels, y_name, "--kind next-step")


def by_step(x: np.ndarray, lengths: list[int]) -> np.ndarray:
    """(steps, channels); steps without channels are one channel, also as the single row that MATLAB makes of them."""
    single_row = x.ndim == 2 and len(x) == 1 and x.shape[1] == sum(lengths)
    return x.reshape(-1, 1) if single_row else x.reshape(len(x), -1)


def whole_numbers(length: np.ndarray, name: str) -> list[int]:
    """How long each sequence is."""
    length = column(length)
    hint = "length = numpy.array([len(s) for s in sequences])"
    if length.ndim != 1 or length.dtype.kind not in "iuf":
        raise XDError(f"{name} of shape {length.shape} and type {length.dtype}", "one whole number per sequence", hint)
    broken = np.flatnonzero(~(np.isfinite(length) & (length == np.round(length))))
    if len(broken):
        raise XDError(f"{name} with {length[broken[0]]:g} for sequence {broken[0]}", "one whole number per sequence", hint)
    return [int(n) for n in length]


def divide(given: dict[str, RaggedPart], settings: DataSettings) -> tuple[dict[str, RaggedPart], str]:
    """Three parts, whatever was given, and how they came about."""

    def cut(part: str, shares: tuple[float, ...], names: tuple[str, ...]) -> dict[str, RaggedPart]:
        sequences, labels = given[part]
        groups = np.zeros(len(sequences), dtype=int) if labels is None else labels
        indices = split_indices(groups, shares, settings.split_seed)
        return {n: ([sequences[j] for j in i], None if labels is None else labels[i]) for n, i in zip(names, indices, strict=True)}

    train, val, _ = settings.split
    if set(given) in ({"all"}, {"train"}):
        parts = cut(next(iter(given)), settings.split, PARTS)
        how = f"split at random, {' / '.join(f'{f:.0%}' for f in settings.split)}, seed {settings.split_seed}"
    elif set(given) == {"train", "test"}:
        share = (train / (train + val), val / (train + val))
        parts = cut("train", share, PARTS[:2]) | {"test": given["test"]}
        how = f"{share[1]:.0%} of the training part set aside for validation, seed {settings.split_seed}"
    elif set(given) == set(PARTS):
        parts, how = given, "as given"
    else:
        raise XDError(f"parts {', '.join(given)}", f"{LENGTH}_train and {LENGTH}_test [, {LENGTH}_val], or {LENGTH}", "all parts")
    for part, (sequences, _) in parts.items():
        if not sequences:
            raise XDError(f"an empty {part} part", "at least one sequence in each of train, val, test", "more data, or --split")
    return parts, how


def make_reading(parts: dict[str, RaggedPart], kind: TaskKind, y_name: str) -> Reading:
    """Everything that is learned about the data itself comes from the training part."""
    train = np.concatenate(parts["train"][0])
    if kind == "next-step" and (train == train[:1]).all():
        raise XDError(
            f"{several(len(train), 'step')} that are all the same in the training part", "steps that differ", "another array"
        )
    longest = max(len(s) for sequences, _ in parts.values() for s in sequences)
    classes: tuple[str, ...] | tuple[int, ...] = ()
    if kind == "sequence-class":
        classes = check_classes(
            {p: (np.empty(0), y) for p, (_, y) in parts.items() if y is not None}, "classification", y_name, "--kind next-step"
        )
    binary = all(np.isin(s, (0, 1)).all() for sequences, _ in parts.values() for s in sequences)
    channels = train.shape[1]
    scaling = Scaling((0.0,) * channels, (1.0,) * channels) if binary else Scaling.of(train.astype(np.float64))
    check_told_apart(train, scaling, "the training part of x")
    request = Request(kind, channels, len(classes) or channels, (longest,))
    return Reading(request, "TC", scaling, None if binary or classes else scaling, classes)


def sequences_of(reading: Reading, part: RaggedPart) -> Sequences:
    """Inputs and targets of every step. A label stands at every step, and counts at the last."""
    sequences, labels = part
    scaled = [scale(reading, s, "x") for s in sequences]
    if labels is None:
        lengths = tuple(len(s) - 1 for s in scaled)
        return Sequences(torch.cat([s[:-1] for s in scaled]), torch.cat([s[1:] for s in scaled]), lengths)
    numbers = torch.from_numpy(np.searchsorted(np.asarray(reading.classes), labels).astype(np.int64))
    lengths = tuple(len(s) for s in scaled)
    counted = torch.zeros(sum(lengths), dtype=torch.bool)
    counted[torch.tensor(lengths).cumsum(0) - 1] = True
    return Sequences(torch.cat(scaled), numbers.repeat_interleave(torch.tensor(lengths)), lengths, counted)


def scale(reading: Reading, x: np.ndarray, name: str) -> Tensor:
    """Steps (T, channels) as a network takes them."""
    values = reading.x_scaling.apply(x)
    check_scaled(values, name)
    return torch.from_numpy(np.ascontiguousarray(values))


def describe(reading: Reading, parts: dict[str, RaggedPart], settings: DataSettings, how: str) -> tuple[str, ...]:
    lengths = [len(s) for sequences, _ in parts.values() for s in sequences]
    overrules = " (detected; --kind overrules)" if settings.kind is None else ""
    channels = reading.request.in_channels
    if reading.classes:
        target = f"one of {len(reading.classes)} classes per sequence"
    else:
        target = f"the next step, {'zeros and ones' if reading.y_scaling is None else 'numbers'}"
    sizes = " ".join(f"{len(parts[p][0])} {name}," for p, name in zip(PARTS, ("training", "validation", "test"), strict=True))
    shortest, longest = min(lengths), max(lengths)
    span = several(longest, "step") if shortest == longest else f"{shortest} to {longest} steps"
    return (
        f"{several(len(lengths), 'sequence')} of {span}, {several(channels, 'channel')}",
        f"predicted: {target}{overrules}",
        f"{sizes.rstrip(',')} sequences: {how}",
    )


def separate_inputs(reading: Reading, x: np.ndarray, length: np.ndarray, name: str) -> list[Tensor]:
    """New sequences for a network, each (1, channels, T)."""
    if x.ndim not in (1, 2):
        raise XDError(f"{name} of shape {x.shape}", "numbers (steps,) or (steps, channels)", "--x-name")
    lengths = whole_numbers(length, f"the lengths of {name}")
    x = by_step(x, lengths)
    check_lengths(lengths, len(x), name)
    if x.shape[1] != reading.request.in_channels:
        raise XDError(
            f"{name} with {several(x.shape[1], 'channel')}",
            f"{reading.request.in_channels}, as in training",
            "--x-name",
        )
    scaled = scale(reading, x, name)
    return [part.T[None].contiguous() for part in scaled.split(lengths)]
