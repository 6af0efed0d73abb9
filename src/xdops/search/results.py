"""What a search gives back, and how it can end otherwise."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdops.arguments import check_fields
from xdops.errors import XDError
from xdops.measuring.tables import html_table
from xdops.storage.documents import SEAL


@dataclass(frozen=True)
class EpochRecord:
    """One line of metrics.jsonl. Epochs count from 1; losses are per example, or per time step of sequences."""

    epoch: int
    train_loss: float
    validation_loss: float
    validation_metric: float
    lr_weights: float
    lr_architecture: float  # 0 while frozen, or without architecture
    novelty: float  # mean over the converted layers
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class SearchResult:
    """The outcome of one run; also in its folder as result.json."""

    metric: str
    higher_is_better: bool
    best_epoch: int
    best_validation: float
    last_validation: float
    test_at_best: float
    test_at_last: float
    seconds_per_epoch: float  # median over epochs
    weights: int  # numbers of trained parameters
    architecture: int
    novelty: dict[str, float]  # per layer, at the best epoch
    history: tuple[EpochRecord, ...]
    best_checkpoint: str  # path of its safetensors, relative to the run's folder
    best_sha256: str  # of that file

    def _repr_html_(self) -> str:
        """For a notebook: what came out, and how far each layer has moved."""
        facts = [
            (f"test {self.metric}", f"{self.test_at_best:.4g}"),
            (f"validation {self.metric}", f"{self.best_validation:.4g}"),
            ("best epoch", f"{self.best_epoch} of {len(self.history)}"),
            ("weights", f"{self.weights:,}"),
            ("architecture parameters", f"{self.architecture:,}"),
            ("seconds per epoch", f"{self.seconds_per_epoch:.3g}"),
            *((f"novelty of {layer}", f"{moved:.3g}") for layer, moved in self.novelty.items()),
        ]
        return html_table(("", "value"), facts, "search")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"history": [r.to_dict() for r in self.history]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SearchResult":
        """The result that `to_dict` wrote."""
        own = {k: v for k, v in data.items() if k != SEAL}
        result = cls(**own | {"history": tuple(EpochRecord(**r) for r in data["history"])})
        for part in (result, *result.history):
            check_fields(part)
        if not 1 <= result.best_epoch <= len(result.history):
            raise ValueError(f"best epoch {result.best_epoch} of {len(result.history)}")
        return result


class Interrupted(Exception):
    """A search was asked to stop and has saved everything; resuming it continues bit for bit."""

    exit_code = 130

    def __init__(self, out: Path, epoch: int, step: int) -> None:
        self.out, self.epoch, self.step = out, epoch, step
        where = f"in epoch {epoch + 1} after step {step}" if step else f"after epoch {epoch}"
        super().__init__(f"stopped {where}, saved in {out}; continue with --resume (resume=True)")

    def __reduce__(self) -> tuple[type["Interrupted"], tuple[Path, int, int]]:
        return Interrupted, (self.out, self.epoch, self.step)


class Diverged(XDError):
    """A loss, gradient or parameter is no longer a useful number; the last good checkpoint is kept."""

    def __reduce__(self) -> tuple[type["Diverged"], tuple[str, str, str]]:
        return Diverged, (self.given, self.expected, self.hint)

    def of(self, run: str) -> "Diverged":
        """The same, saying which of several runs it was."""
        return Diverged(f"{run}, with {self.given}", self.expected, self.hint)
