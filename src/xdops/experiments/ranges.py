"""What is tuned, and between which values: the ranges file, and points in it that are spread evenly.

Every setting has a dimension of its own in one low-discrepancy sequence. So every space tries the same step sizes, batch sizes and
decays of the weights, and spaces with an architecture the same settings of that besides.
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from xdops.arguments import check
from xdops.errors import XDError
from xdops.search import SearchSettings
from xdops.storage.documents import read_object

Values = Mapping[str, float]


@dataclass(frozen=True)
class Tunable:
    """A setting that can be tuned. logarithmic: spread evenly over orders of magnitude."""

    least: float
    most: float
    logarithmic: bool = True
    architecture: bool = False  # matters only where an architecture learns

    def at(self, share: float, low: float, high: float) -> float:
        """The value at this share, from 0 to 1, of the way."""
        return low * (high / low) ** share if self.logarithmic else low + (high - low) * share


TUNABLE = {
    "lr": Tunable(1e-12, 1e3),
    "weight_decay": Tunable(1e-12, 1e3),
    "batch_size": Tunable(1, 1 << 20),
    "arch_lr": Tunable(1e-12, 1e3, architecture=True),
    "warmup": Tunable(0, 0.9, logarithmic=False, architecture=True),
}


@dataclass(frozen=True)
class Ranges:
    """low and high of every setting that is tuned."""

    bounds: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        check("bounds", self.bounds, Mapping[str, Any], "Ranges")
        unknown = sorted(set(self.bounds) - set(TUNABLE))
        if unknown or not self.bounds:
            raise XDError(
                f"ranges of {', '.join(unknown) or 'nothing'}",
                f"some of {', '.join(TUNABLE)}",
                "lr = [0.001, 0.1], a line for each",
            )
        for name, pair in self.bounds.items():
            check_bounds(name, pair)

    def points(self, trials: int, seed: int) -> list[dict[str, float]]:
        """As many points, each a value for every setting that is tuned; more trials continue the same sequence."""
        from scipy.stats import qmc  # takes a second to load, and every worker would wait for it

        shares = qmc.Halton(len(TUNABLE), scramble=True, rng=seed).random(trials)
        return [self._point(dict(zip(TUNABLE, row, strict=True))) for row in shares.tolist()]

    def _point(self, shares: Values) -> dict[str, float]:
        return {name: TUNABLE[name].at(shares[name], low, high) for name, (low, high) in self.bounds.items()}

    def to_dict(self) -> dict[str, list[float]]:
        return {name: list(pair) for name, pair in self.bounds.items()}


def check_bounds(name: str, pair: Any) -> None:
    """Two numbers in order, within what the setting can be."""
    tuned, example = TUNABLE[name], f"{name} = {DEFAULT.get(name)}"
    numbers = isinstance(pair, list | tuple) and len(pair) == 2 and all(type(v) in (int, float) and abs(v) < math.inf for v in pair)
    if not numbers:
        raise XDError(f"range {name} = {list(pair) if isinstance(pair, tuple) else pair!r}", "two numbers, from and to", example)
    if pair[0] > pair[1]:
        raise XDError(
            f"range {name} = {list(pair)}, which is upside down", "the smaller number first", f"{name} = {list(pair)[::-1]}"
        )
    if not tuned.least <= pair[0] <= pair[1] <= tuned.most:
        raise XDError(f"range {name} = {list(pair)}", f"numbers from {tuned.least:.12g} to {tuned.most:.12g}", example)
    if name == "batch_size" and any(v != int(v) for v in pair):
        raise XDError(f"range {name} = {list(pair)}", "whole numbers of examples", example)


DEFAULT: dict[str, list[float]] = tomllib.loads(files("xdops.experiments").joinpath("ranges.toml").read_text())


def read_ranges(path: Path | None) -> Ranges:
    """Of the user's file, or those that come with xdops."""
    if path is None:
        return Ranges({name: (low, high) for name, (low, high) in DEFAULT.items()})
    check("path", path, Path, "read_ranges")
    path = Path(path)
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    found = read_object(path, parse, "a TOML or JSON file with a range for each name", "lr = [0.001, 0.1]")
    return Ranges({name: tuple(pair) if isinstance(pair, list) else pair for name, pair in found.items()})


def matter(values: Values, architecture: bool) -> dict[str, float]:
    """Those of the values that make a difference to a space with, or without, an architecture."""
    return {name: value for name, value in values.items() if architecture or not TUNABLE[name].architecture}


def with_values(settings: SearchSettings, values: Values) -> SearchSettings:
    """The settings with the values in their places."""
    weights, architecture = settings.weights, settings.architecture
    warmup = values.get("warmup", 0.0) * settings.epochs
    return dataclasses.replace(
        settings,
        weights=dataclasses.replace(
            weights, lr=values.get("lr", weights.lr), weight_decay=values.get("weight_decay", weights.weight_decay)
        ),
        architecture=dataclasses.replace(architecture, lr=values.get("arch_lr", architecture.lr)),
        batch_size=round(values.get("batch_size", settings.batch_size)),
        warmup=min(settings.epochs - 1, round(warmup)) if "warmup" in values else settings.warmup,
    )
