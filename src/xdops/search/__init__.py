"""Joint one-shot training of weights and architecture.

    search(network, problem, settings, out) -> SearchResult

`network` is any module; its architecture parameters are those that `xdops.convert.arch_parameters` finds (none: plain training).
"""

from xdops.search.checkpoint import load_checkpoint, load_weights, save_checkpoint
from xdops.search.crops import Crops
from xdops.search.examples import Batch, Examples, Sequences, Split
from xdops.search.problem import MeanMetric, Metric, Problem
from xdops.search.progress import PlainProgress, Progress, RichProgress, Silent
from xdops.search.results import Diverged, EpochRecord, Interrupted, SearchResult
from xdops.search.run import search, train_until
from xdops.search.settings import OptimizerSettings, ScheduleSettings, SearchSettings
from xdops.search.tiles import Tiles

__all__ = [
    "Batch",
    "Crops",
    "Diverged",
    "EpochRecord",
    "Examples",
    "Interrupted",
    "MeanMetric",
    "Metric",
    "OptimizerSettings",
    "PlainProgress",
    "Problem",
    "Progress",
    "RichProgress",
    "ScheduleSettings",
    "SearchResult",
    "SearchSettings",
    "Sequences",
    "Silent",
    "Split",
    "Tiles",
    "load_checkpoint",
    "load_weights",
    "save_checkpoint",
    "search",
    "train_until",
]
