"""The figures that stand for a whole run, and what they are meant to reach."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdops.bench import layers

Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """One figure: the geometric mean (`mean`) or the largest of a value that layers have, and its limit."""

    key: str
    text: str
    limit: float
    value: Callable[[Row], float | None]
    mean: bool = False

    def values(self, rows: Sequence[Row]) -> dict[str, float]:
        """By layer, where the value exists."""
        return {row["layer"]: v for row in rows if (v := self.value(row)) is not None}

    def figure(self, rows: Sequence[Row]) -> float | None:
        values = list(self.values(rows).values())
        if not values:
            return None
        return geometric_mean(values) if self.mean else max(values)


def _training(row: Row) -> float:
    return float(row["training"]["auto"]["ratio"])


def _large_kernel(row: Row) -> float | None:
    kernels = {layer.name: layer.kernel for layer in layers.LAYERS}
    return _training(row) if kernels[row["layer"]] >= 9 else None


TARGETS = (
    Target("geometric_mean", "training, geometric mean over layers", 2.0, _training, mean=True),
    Target("worst", "training, worst layer", 8.0, _training),
    Target("worst_large_kernel", "training, worst layer with kernel 9 or more", 1.3, _large_kernel),
    Target("worst_frozen", "frozen (warm-up), worst layer", 1.05, lambda row: row["training"]["frozen"]["ratio"]),
    Target("worst_depth3_over_depth1", "depth (3,3,3) over depth 1, worst", 1.5, lambda row: row["depth3_over_depth1"]),
    Target("worst_auto_over_best", "auto over best form, worst layer", 1.15, lambda row: row["auto_over_best"]),
    Target("memory_geometric_mean", "peak memory, geometric mean", 2.0, lambda row: row["memory_ratio"], mean=True),
    Target("worst_memory", "peak memory, worst layer", 3.0, lambda row: row["memory_ratio"]),
)

GROWTH, GROWTH_TEXT, GROWTH_LIMIT = ("burgers-256", "burgers-8192"), "time per point, n = 8192 over n = 256", 4.0


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def growth(rows: Sequence[Row]) -> float | None:
    """How much more a point costs in the longest 1d layer than in the shortest."""
    per_point = {row["layer"]: row["training"]["auto"]["seconds"] / row["size"][0] for row in rows}
    short, long = (per_point.get(name) for name in GROWTH)
    return None if short is None or long is None else long / short


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures that the targets are about, None where they were not measured."""
    out: dict[str, Any] = {target.key: target.figure(rows) for target in TARGETS}
    out["growth"] = growth(rows)
    texts = {**{target.key: target.text for target in TARGETS}, "growth": GROWTH_TEXT}
    out["text"] = [f"{text}: {out[key]:.2f}" for key, text in texts.items() if out[key] is not None]
    return out
