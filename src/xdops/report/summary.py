"""What the runs say: per space a mean and its spread over seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdops.search import SearchResult


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
