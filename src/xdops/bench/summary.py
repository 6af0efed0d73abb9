"""The figures that stand for a whole run, and what they are meant to reach."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdops.bench import layers

MeasuredLayer = dict[str, Any]
LayerFigure = Callable[[MeasuredLayer], float | None]

#: A layer for which compiled kernels are worth having trains this much faster with them.
WORTH = 1.5

#: The shortest and the longest one-dimensional layer; and the one whose matrices, n x n for every tap, no form does without.
SHORT, LONG, MASKED = "burgers-256", "burgers-8192", "pmnist"


@dataclass(frozen=True)
class Target:
    """One figure of all layers, its limit, and by layer the values that it is made of, if it is the worst of them."""

    key: str
    text: str
    limit: float
    figure: Callable[[Sequence[MeasuredLayer]], float | None]
    value: LayerFigure | None = None
    at_least: bool = False

    def met(self, figure: float) -> bool:
        return figure >= self.limit if self.at_least else figure <= self.limit

    def above(self, rows: Sequence[MeasuredLayer]) -> dict[str, float]:
        """The layers that miss it, the worst first."""
        found = {} if self.value is None else {row["layer"]: v for row in rows if (v := self.value(row)) is not None}
        return {name: v for name, v in sorted(found.items(), key=lambda pair: -pair[1]) if v > self.limit}


def mean(key: str, text: str, limit: float, value: LayerFigure) -> Target:
    def figure(rows: Sequence[MeasuredLayer]) -> float | None:
        values = [v for row in rows if (v := value(row)) is not None]
        return geometric_mean(values) if values else None

    return Target(key, text, limit, figure)


def worst(key: str, text: str, limit: float, value: LayerFigure) -> Target:
    return Target(key, text, limit, lambda rows: max((v for row in rows if (v := value(row)) is not None), default=None), value)


def ratio(name: str) -> Callable[[MeasuredLayer], float]:
    """Of a training step to the convolution's."""
    return lambda row: float(row["training"][name]["ratio"])


def _half(row: MeasuredLayer) -> float:
    return ratio("auto")(row)


def _masked(row: MeasuredLayer) -> float | None:
    return _half(row) if row["layer"] == MASKED else None


def _large_kernel(row: MeasuredLayer) -> float | None:
    kernels = {layer.name: layer.kernel for layer in layers.LAYERS}
    return _half(row) if kernels[row["layer"]] >= 9 else None


def growth(rows: Sequence[MeasuredLayer]) -> float | None:
    """How much more a point costs in the longest 1d layer than in the shortest."""
    per_point = {row["layer"]: row["training"]["auto"]["seconds"] / row["size"][0] for row in rows}
    return per_point[LONG] / per_point[SHORT] if {LONG, SHORT} <= set(per_point) else None


def worth(rows: Sequence[MeasuredLayer]) -> float:
    """How many layers kernels make so much faster."""
    return float(sum(row["kernels_gain"] >= WORTH for row in rows))


TARGETS = (
    mean("geometric_mean", "training, half domain, geometric mean", 1.3, _half),
    worst("worst", f"training, half domain, worst layer but {MASKED}", 6.0, lambda r: None if r["layer"] == MASKED else _half(r)),
    worst("worst_masked", f"training, half domain, {MASKED}", 10.0, _masked),
    worst("worst_large_kernel", "training, half domain, worst layer with kernel 9 or more", 0.7, _large_kernel),
    mean("full_geometric_mean", "training, full domain, geometric mean", 1.9, ratio("full")),
    worst("worst_frozen", "frozen (warm-up), worst layer", 1.03, ratio("frozen")),
    worst("worst_depth3_over_depth1", "depth (3,3,3) over depth 1, worst", 1.5, lambda row: row["depth3_over_depth1"]),
    worst("worst_auto_over_best", "auto over best form, worst layer", 1.1, lambda row: row["auto_over_best"]),
    mean("memory_geometric_mean", "peak memory, half domain, geometric mean", 1.3, lambda row: row["memory_ratio"]),
    worst("worst_memory", "peak memory, half domain, worst layer", 2.2, lambda row: row["memory_ratio"]),
    Target("growth", "time per point, n = 8192 over n = 256", 1.6, growth),
    Target("kernels", f"layers that compiled kernels make {WORTH} times faster", 4, worth, at_least=True),
)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summarise(rows: Sequence[MeasuredLayer]) -> dict[str, Any]:
    """The figures that the targets are about, None where they were not measured, and a line on each that was."""
    out: dict[str, Any] = {target.key: target.figure(rows) for target in TARGETS}
    out["text"] = [_line(target, out[target.key], rows) for target in TARGETS if out[target.key] is not None]
    return out


def _line(target: Target, figure: float, rows: Sequence[MeasuredLayer]) -> str:
    verdict = "met" if target.met(figure) else "not met"
    above = ", ".join(f"{name} {value:.2f}" for name, value in target.above(rows).items())
    limit = f"at {'least' if target.at_least else 'most'} {target.limit:g}"
    return f"{target.text}: {figure:.2f} ({limit}: {verdict}{': ' + above if above else ''})"
