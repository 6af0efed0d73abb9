"""Loss and metric of each kind of task. Targets stay in the data's own units; networks predict in scaled units."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.backbones.request import Kind
from xdops.search import Metric
from xdops.tasks.scaling import Scaling

Loss = Callable[[Tensor, Tensor], Tensor]

#: Names of the metrics, and whether more is better.
METRICS: dict[Kind, tuple[str, bool]] = {
    "classification": ("accuracy", True),
    "regression": ("RMSE", False),
    "dense": ("relative L2 error", False),
}


@dataclass(frozen=True)
class Objective:
    loss: Loss
    metric: Metric


def objective(kind: Kind, scaling: Scaling | None, floor: float) -> Objective:
    """scaling: of the targets, None for classes. floor: the least norm of a target grid that relative errors divide by."""
    name, higher = METRICS[kind]
    if kind == "classification":
        return Objective(F.cross_entropy, Metric(name, accuracy, higher))
    assert scaling is not None  # regression and dense targets are always scaled
    undo = scaling.undo

    if kind == "regression":
        scale = torch.tensor(scaling.std)

        def squared(prediction: Tensor, y: Tensor) -> Tensor:
            """In scaled units, so that every target counts alike."""
            return (((undo(prediction) - y) / scale.to(y)) ** 2).mean()

        return Objective(squared, Metric(name, lambda p, y: (undo(p) - y).square().mean().sqrt(), higher))

    def relative(prediction: Tensor, y: Tensor) -> Tensor:
        return relative_l2(undo(prediction), y, floor)

    return Objective(relative, Metric(name, relative, higher))


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.argmax(dim=1) == y).float().mean()


def relative_l2(prediction: Tensor, y: Tensor, floor: float) -> Tensor:
    """mean over examples of |prediction - y| / max(|y|, floor)."""
    difference = (prediction - y).flatten(1).norm(dim=1)
    return (difference / y.flatten(1).norm(dim=1).clamp_min(floor)).mean()
