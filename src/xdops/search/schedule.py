"""The factor on every step size, as a function of the epoch and of validation so far: no state of its own to save."""

import math
from collections.abc import Sequence

from xdops.search.problem import Metric
from xdops.search.settings import ScheduleSettings


def schedule_factor(schedule: ScheduleSettings, epochs: int, validation: Sequence[float], metric: Metric) -> float:
    """The factor for the epoch that follows those whose validation metrics are given."""
    epoch = len(validation)
    match schedule.name:
        case "step":
            return _step(schedule, epoch, epochs)
        case "cosine":
            return schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * epoch / epochs)) / 2
        case "plateau":
            return _plateau(schedule, validation, metric)
        case _:
            return 1.0


def _step(schedule: ScheduleSettings, epoch: int, epochs: int) -> float:
    count = len(schedule.milestones)
    factors = schedule.factor if isinstance(schedule.factor, tuple) else (schedule.factor,) * count
    reached = [epoch >= (m * epochs if m < 1 else m) for m in schedule.milestones]
    return math.prod(f for f, r in zip(factors, reached, strict=True) if r)


def _plateau(schedule: ScheduleSettings, validation: Sequence[float], metric: Metric) -> float:
    assert isinstance(schedule.factor, float | int)  # checked by ScheduleSettings
    worse = 0
    for i in range(max(schedule.patience, schedule.after), len(validation)):
        worse += all(metric.better(old, validation[i]) for old in validation[i - schedule.patience : i])
    return schedule.factor**worse
