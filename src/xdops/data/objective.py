"""Loss and metric of each kind of task. Targets stay in the data's own units; networks predict in scaled units.

Losses are plain data with a `__call__`, so that data-parallel processes can be sent them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.backbones.request import TaskKind
from xdops.data.scaling import Scaling
from xdops.search import Batch, MeanMetric


@dataclass(frozen=True)
class Objective:
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: MeanMetric  # so that spaces can be compared example by example


def objective(kind: TaskKind, scaling: Scaling | None, floor: float) -> Objective:
    """scaling: of the targets, None for classes, zeros and ones. floor: the least norm of a grid that relative errors divide by."""
    if kind == "classification":
        return Objective(F.cross_entropy, MeanMetric("accuracy", right, higher_is_better=True))
    if kind == "sequence-class":
        return Objective(F.cross_entropy, MeanMetric("accuracy", right, higher_is_better=True))
    if kind == "next-step" and scaling is None:
        return Objective(step_likelihood, MeanMetric("loss per step", likelihood_of_steps, higher_is_better=False))
    if kind == "next-step":
        return Objective(F.mse_loss, MeanMetric("relative RMSE", squares_of_steps, higher_is_better=False, final=math.sqrt))
    assert scaling is not None  # regression and dense targets are always scaled
    if kind == "regression":
        return Objective(ScaledSquaredError(scaling), MeanMetric("RMSE", Squares(scaling), higher_is_better=False, final=math.sqrt))
    relative = RelativeL2(scaling, floor)
    return Objective(relative, MeanMetric("relative L2 error", SumOf(relative), higher_is_better=False))


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.argmax(dim=1) == y).float().mean()


def right(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """Examples whose class is the likeliest; of a sequence at its last step, the only one that counts."""
    logits, y = batch.counted(prediction)
    return (logits.argmax(dim=1) == y).sum(), len(y)


def step_likelihood(prediction: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood of zeros and ones, summed over channels, mean over steps."""
    return F.binary_cross_entropy_with_logits(prediction, y, reduction="sum") / len(y)


def likelihood_of_steps(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    given, y = batch.counted(prediction)
    return step_likelihood(given, y) * len(y), len(y)


def squares_of_steps(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """In standard deviations of each channel, mean over channels: 1 is as good as always saying the mean."""
    given, y = batch.counted(prediction)
    return (given - y).square().mean(dim=1).sum(), len(y)


@dataclass(frozen=True)
class ScaledSquaredError:
    """Mean square in scaled units, so that every target counts alike."""

    scaling: Scaling

    def __call__(self, prediction: Tensor, y: Tensor) -> Tensor:
        return ((self.scaling.undo(prediction) - y) / torch.tensor(self.scaling.std).to(y)).square().mean()


@dataclass(frozen=True)
class Squares:
    """In the units of the data, mean over the numbers of an example."""

    scaling: Scaling

    def __call__(self, prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
        return (self.scaling.undo(prediction) - batch.y).square().flatten(1).mean(dim=1).sum(), len(batch.y)


@dataclass(frozen=True)
class RelativeL2:
    """mean over examples of |prediction - y| / max(|y|, floor)."""

    scaling: Scaling
    floor: float

    def __call__(self, prediction: Tensor, y: Tensor) -> Tensor:
        difference = (self.scaling.undo(prediction) - y).flatten(1).norm(dim=1)
        return (difference / y.flatten(1).norm(dim=1).clamp_min(self.floor)).mean()


@dataclass(frozen=True)
class SumOf:
    """A mean over examples, as what it is the mean of."""

    mean: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
        return self.mean(prediction, batch.y) * len(batch.y), len(batch.y)
