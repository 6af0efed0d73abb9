"""Joint one-shot training of weights and architecture.

    search(network, problem, settings, out) -> SearchResult

`network` is any module; its architecture parameters are those that `xdops.convert.arch_parameters` finds (none: plain training).
"""

from xdops.search.problem import Metric, Problem, Split
from xdops.search.progress import Progress, Silent
from xdops.search.results import Diverged, EpochRecord, Interrupted, SearchResult
from xdops.search.run import search
from xdops.search.settings import OptimizerSettings, ScheduleSettings, SearchSettings

__all__ = [
    "Diverged",
    "EpochRecord",
    "Interrupted",
    "Metric",
    "OptimizerSettings",
    "Problem",
    "Progress",
    "ScheduleSettings",
    "SearchResult",
    "SearchSettings",
    "Silent",
    "Split",
    "search",
]
