"""What the runs say: per space a mean and its spread over seeds, and one sentence that compares XD with the backbone."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy.stats

from xdops.search import SearchResult

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SpaceSummary:
    """One row of the table."""

    space: str
    metric: str
    higher_is_better: bool
    test: tuple[float, ...]  # one value per seed, at the epoch that was best on validation
    validation: tuple[float, ...]
    weights: int
    architecture: int
    seconds_per_epoch: float
    novelty: float  # mean over layers and seeds

    @property
    def mean(self) -> float:
        return statistics.fmean(self.test)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.test) if len(self.test) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self)) | {"mean": self.mean, "spread": self.spread}


def summarise(results: Mapping[str, Sequence[SearchResult]]) -> list[SpaceSummary]:
    """One summary per space, in the order given."""
    rows = []
    for space, runs in results.items():
        layers = [statistics.fmean(r.novelty.values()) for r in runs if r.novelty]
        rows.append(
            SpaceSummary(
                space,
                runs[0].metric,
                runs[0].higher_is_better,
                tuple(r.test_at_best for r in runs),
                tuple(r.best_validation for r in runs),
                runs[0].weights,
                runs[0].architecture,
                statistics.fmean(r.seconds_per_epoch for r in runs),
                statistics.fmean(layers) if layers else 0.0,
            )
        )
    return rows


def seeds_of(rows: Sequence[SpaceSummary]) -> str:
    """How many seeds the rows stand for, which may differ after a search was extended."""
    counts = sorted({len(row.test) for row in rows})
    if counts == [1]:
        return "1 seed"
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds"


def is_share(metric: str) -> bool:
    """Whether a metric reads best in percent."""
    return metric in ("accuracy", "relative L2 error")


def number(value: float, metric: str) -> str:
    return f"{100 * value:.2f}%" if is_share(metric) else f"{value:.4g}"


def with_spread(row: SpaceSummary) -> str:
    """mean ± standard deviation over seeds."""
    if row.spread is None:
        return number(row.mean, row.metric)
    if is_share(row.metric):
        return f"{100 * row.mean:.2f} ± {100 * row.spread:.2f}%"
    return f"{row.mean:.4g} ± {row.spread:.2g}"


def difference_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """mean(b) - mean(a) with its confidence interval (Welch: neither equal spreads nor many seeds are assumed)."""
    difference = statistics.fmean(b) - statistics.fmean(a)
    u, v = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    error = math.sqrt(u + v)
    if error == 0:
        return difference, difference, difference
    freedom = (u + v) ** 2 / (u**2 / (len(a) - 1) + v**2 / (len(b) - 1))
    half = error * float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return difference, difference - half, difference + half


def verdict(rows: Sequence[SpaceSummary], space: str = "xd", baseline: str = "backbone") -> str:
    """One plain sentence: whether the space helped and by how much, or not, or that it cannot be told."""
    by_name = {row.space: row for row in rows}
    if space not in by_name or baseline not in by_name:
        return f"No comparison: it takes both {baseline} and {space} (--spaces {baseline},{space})."
    base, new = by_name[baseline], by_name[space]
    name = {"xd": "XD", "darts": "DARTS"}.get(space, space)
    figures = f"test {base.metric} {with_spread(new)} against the backbone's {with_spread(base)}"
    gain = new.mean - base.mean if base.higher_is_better else base.mean - new.mean
    if len(base.test) < 2 or len(new.test) < 2:
        direction = "better" if gain > 0 else "worse" if gain < 0 else "the same"
        return f"{name} came out {direction} ({figures}), but one seed cannot tell skill from chance: add --seeds 3."
    difference, low, high = difference_interval(base.test, new.test)
    sure = low > 0 or high < 0
    ends = f"{amount(low, base.metric).removesuffix(' points')} to {amount(high, base.metric)}"
    interval = f"{CONFIDENCE:.0%} interval over {seeds_of([base, new])}: {ends}"
    by = amount(difference, base.metric)
    if not sure:
        seeds = seeds_of([base, new])
        return f"{name} made no clear difference over {seeds}: {figures} (difference {by}, {interval}, zero included)."
    word = "helped" if gain > 0 else "did not help, it made things worse"
    return f"{name} {word}: {figures}, a difference of {by} ({interval}){share_of_error(base, new, gain)}."


def amount(value: float, metric: str) -> str:
    return f"{100 * value:+.2f} points" if is_share(metric) else f"{value:+.3g}"


def share_of_error(base: SpaceSummary, new: SpaceSummary, gain: float) -> str:
    """What part of the backbone's error is gone."""
    error, left = (1 - base.mean, 1 - new.mean) if base.metric == "accuracy" else (base.mean, new.mean)
    if gain <= 0 or error <= 0 or left < 0:
        return ""
    return f"; {1 - left / error:.0%} of the backbone's error is gone"
