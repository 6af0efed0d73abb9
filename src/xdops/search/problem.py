"""What is to be learned: examples, a loss, a metric."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Generator, Tensor, nn

from xdops.arguments import check_fields
from xdops.search.examples import Batch, Examples


@dataclass(frozen=True)
class Metric:
    """function(predictions, targets) over a whole split -> one number."""

    name: str
    function: Callable[[Tensor, Tensor], Tensor | float]
    higher_is_better: bool

    def better(self, new: float, old: float) -> bool:
        return new > old if self.higher_is_better else new < old


@dataclass(frozen=True)
class MeanMetric(Metric):
    """A metric that is a mean over examples, time steps or other units, added up batch by batch.

    function(prediction, batch) -> the sum over the batch's units, and how many they are; it picks those that count. final: of the
    mean, e.g. `math.exp` for a perplexity.
    """

    function: Callable[[Tensor, Batch], tuple[Tensor | float, int]]  # type: ignore[assignment]
    final: Callable[[float], float] | None = None

    def of(self, total: float, count: float) -> float:
        mean = total / count
        return mean if self.final is None else self.final(mean)


class Predictor(Protocol):
    """How a network is asked about examples that it is judged by, where that is more than one call, e.g. in tiles."""

    def __call__(self, network: nn.Module, x: Tensor) -> Tensor: ...

    def to_dict(self) -> dict[str, Any]:
        """JSON data that tells it from another, part of the run's identity."""
        ...


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

    loss(prediction, y) -> a scalar: the mean over the batch's units (examples, or the time steps of sequences), or their sum when
    reduction is "sum" (the PDE tasks). Of a batch with a mask it sees what counts alone, (places, outputs) and (places, ...).
    augment(x, generator) -> x: applied to training inputs only, drawing all its randomness from the generator.
    penalty(network, progress) -> a scalar: added once per step while the architecture learns, and not to recorded losses.
    predictor(network, x) -> prediction: of validation and test examples; network(x) unless given.
    """

    train: Examples
    validation: Examples
    test: Examples
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Metric
    augment: Callable[[Tensor, Generator], Tensor] | None = None
    reduction: Literal["mean", "sum"] = "mean"
    penalty: Penalty | None = None
    predictor: Predictor | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def signature(self) -> dict[str, Any]:
        """What tells this problem's data, its penalty and its predictor from another's."""
        data = {name: getattr(self, name).signature() for name in ("train", "validation", "test")}
        return data | {name: part.to_dict() for name in ("penalty", "predictor") if (part := getattr(self, name)) is not None}
