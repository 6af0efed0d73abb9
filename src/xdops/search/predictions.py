"""Predictions, loss and metric over a whole split."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from xdops.search.distributed import gather, same_buffers, total
from xdops.search.examples import Batch, Examples
from xdops.search.problem import MeanMetric, Predictor, Problem
from xdops.search.settings import SearchSettings


def cast(fabric: Fabric, tensor: Tensor, settings: SearchSettings) -> Tensor:
    """On the run's device, floating numbers in the run's type."""
    dtype = torch.float64 if settings.precision == "64-true" else torch.float32
    return tensor.to(fabric.device, dtype) if tensor.is_floating_point() else tensor.to(fabric.device)


def predict(fabric: Fabric, network: nn.Module, x: Tensor, settings: SearchSettings, predictor: Predictor | None = None) -> Tensor:
    """What the network says, in full precision even where it computed in less."""
    with fabric.autocast():
        inputs = cast(fabric, x, settings)
        prediction = network(inputs) if predictor is None else predictor(network, inputs)
    return prediction.float() if prediction.dtype in (torch.bfloat16, torch.float16) else prediction


def on_device(fabric: Fabric, batch: Batch, settings: SearchSettings) -> Batch:
    mask = None if batch.mask is None else batch.mask.to(fabric.device)
    return Batch(cast(fabric, batch.x, settings), cast(fabric, batch.y, settings), mask)


@torch.no_grad()
def loss_and_metric(
    fabric: Fabric, network: nn.Module, problem: Problem, examples: Examples, settings: SearchSettings
) -> tuple[float, float]:  # loss per unit, metric
    """Loss and metric of the network in eval mode, each process taking its share of the examples."""
    shares = torch.arange(len(examples)).tensor_split(fabric.world_size)
    with in_eval_mode(fabric, network):
        if isinstance(problem.metric, MeanMetric):
            return _in_batches(fabric, network, problem, problem.metric, examples, shares[fabric.global_rank], settings)
        return _at_once(fabric, network, problem, examples, shares, settings)


@contextmanager
def in_eval_mode(fabric: Fabric, network: nn.Module) -> Iterator[None]:
    """With the same buffers on every process; afterwards each module is in the mode that it was in."""
    was_training = {module: module.training for module in network.modules()}
    network.eval()
    same_buffers(fabric, network)
    try:
        yield
    finally:
        for module, training in was_training.items():
            module.training = training


def batches_of(fabric: Fabric, share: Tensor, settings: SearchSettings) -> Sequence[Tensor]:
    """A process's share of the examples in batches; none if it has no share."""
    return share.split(settings.eval_batch_size or max(1, -(-settings.batch_size // fabric.world_size))) if len(share) else ()


def _at_once(
    fabric: Fabric,
    network: nn.Module,
    problem: Problem,
    examples: Examples,
    shares: Sequence[Tensor],
    settings: SearchSettings,
) -> tuple[float, float]:
    """All predictions together, as a metric over a whole split takes them."""
    # A process without a share still predicts one example, whose shape it needs to take part.
    share = shares[fabric.global_rank]
    own = share if len(share) else torch.zeros(1, dtype=torch.long)
    predictions, targets = [], []
    for indices in batches_of(fabric, own, settings):
        batch = on_device(fabric, examples.batch(indices), settings)
        if batch.mask is not None:
            raise TypeError(f"{problem.metric.name} of examples with a mask: it must be a MeanMetric")
        predictions.append(predict(fabric, network, batch.x, settings, problem.predictor))
        targets.append(batch.y)
    lengths = [len(s) for s in shares]
    prediction, y = (gather(fabric, torch.cat(parts)[: len(share)], lengths) for parts in (predictions, targets))
    loss = float(problem.loss(prediction, y))
    return loss / len(examples) if problem.reduction == "sum" else loss, float(problem.metric.function(prediction, y))


def _in_batches(
    fabric: Fabric,
    network: nn.Module,
    problem: Problem,
    metric: MeanMetric,
    examples: Examples,
    share: Tensor,
    settings: SearchSettings,
) -> tuple[float, float]:
    """Batch by batch, adding up what the means are of; nothing is kept of a batch."""
    loss = weight = value = count = 0.0
    for indices in batches_of(fabric, share, settings):
        batch = on_device(fabric, examples.batch(indices), settings)
        prediction = predict(fabric, network, batch.x, settings, problem.predictor)
        units = examples.weight(indices)
        loss += float(problem.loss(*batch.counted(prediction))) * (units if problem.reduction == "mean" else 1)
        summed, of = metric.function(prediction, batch)
        weight, value, count = weight + units, value + float(summed), count + of
    loss, weight, value, count = total(fabric, loss, weight, value, count)
    return loss / weight, metric.of(value, count)
