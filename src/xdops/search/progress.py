"""How a search shows where it is."""

from typing import Protocol

from xdops.search.results import EpochRecord


class Progress(Protocol):
    """What a search reports as it goes; all calls come from the main process of the run."""

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None: ...  # epoch: how many are already done

    def step(self, epoch: int, step: int, loss: float) -> None: ...

    def epoch(self, record: EpochRecord, best: bool) -> None: ...

    def finish(self) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None: ...

    def step(self, epoch: int, step: int, loss: float) -> None: ...

    def epoch(self, record: EpochRecord, best: bool) -> None: ...

    def finish(self) -> None: ...
