"""What is to be learned: data in memory, a loss, a metric."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Generator, Tensor, nn

from xdops.errors import XDError


@dataclass(frozen=True)
class Split:
    """Examples: x (N, ...) and y (N, ...)."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.dim() == 0 or self.y.dim() == 0 or len(self.x) != len(self.y):
            raise XDError(
                f"x of shape {tuple(self.x.shape)} and y of shape {tuple(self.y.shape)}",
                "as many targets as inputs",
                "x[:N], y[:N]",
            )
        if len(self.x) == 0:
            raise XDError("no examples", "at least one", "a larger part of the data")

    def __len__(self) -> int:
        return len(self.x)

    def signature(self) -> dict[str, Any]:
        """Shapes, types and checksums: what tells two data sets apart."""
        return {
            name: {"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch."), "crc32": _crc32(t)}
            for name, t in (("x", self.x), ("y", self.y))
        }


@dataclass(frozen=True)
class Metric:
    """function(predictions, targets) over a whole split -> one number."""

    name: str
    function: Callable[[Tensor, Tensor], Tensor | float]
    higher_is_better: bool

    def better(self, new: float, old: float) -> bool:
        return new > old if self.higher_is_better else new < old


class Penalty(Protocol):
    """A loss on the network itself, added to that on the data."""

    def __call__(self, network: nn.Module, progress: float) -> Tensor:
        """A scalar; progress from 0 to 1 through all of training, for what is annealed."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON data that tells it from another, part of the run's identity."""
        ...


@dataclass(frozen=True)
class Problem:
    """Data, loss and metric of one task.

    loss(prediction, y) -> a scalar: the mean over the batch's examples, or their sum when reduction is "sum" (the PDE tasks).
    augment(x, generator) -> x: applied to training inputs only, drawing all its randomness from the generator.
    penalty(network, progress) -> a scalar: added once per step while the architecture learns, and not to recorded losses.
    """

    train: Split
    validation: Split
    test: Split
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Metric
    augment: Callable[[Tensor, Generator], Tensor] | None = None
    reduction: Literal["mean", "sum"] = "mean"
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        if self.reduction not in ("mean", "sum"):
            raise XDError(f"reduction={self.reduction!r}", "'mean' or 'sum'", "reduction='mean'")

    def signature(self) -> dict[str, Any]:
        """What tells this problem's data, and its penalty, from another's."""
        data = {name: getattr(self, name).signature() for name in ("train", "validation", "test")}
        return data if self.penalty is None else data | {"penalty": self.penalty.to_dict()}


def _crc32(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
