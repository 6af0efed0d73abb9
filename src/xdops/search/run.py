"""One search from start to end."""

from pathlib import Path
from typing import Any

from torch import nn

from xdops.search.problem import Problem
from xdops.search.progress import Progress
from xdops.search.results import SearchResult
from xdops.search.settings import SearchSettings


def search(
    network: nn.Module,
    problem: Problem,
    settings: SearchSettings,
    out: Path,
    *,
    resume: bool = False,
    describe: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Train weights and architecture of `network` together; afterwards it holds the epoch that was best on validation.

    out: the run's folder (run.json, metrics.jsonl, tensorboard/, checkpoints/, result.json). resume: continue what is there, bit for
    bit, or start if nothing is. describe: JSON data that identifies the network, kept in run.json and compared on resume. progress:
    a bar on a terminal and plain lines elsewhere unless given; `Silent()` for none.
    """
    raise NotImplementedError
