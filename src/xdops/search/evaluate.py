"""Predictions, loss and metric over a whole split."""

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from xdops.search.distributed import gather, same_buffers
from xdops.search.problem import Problem, Split
from xdops.search.settings import SearchSettings


def cast(fabric: Fabric, tensor: Tensor, settings: SearchSettings) -> Tensor:
    """On the run's device, floating numbers in the run's type."""
    dtype = torch.float64 if settings.precision == "64-true" else torch.float32
    return tensor.to(fabric.device, dtype) if tensor.is_floating_point() else tensor.to(fabric.device)


def predict(fabric: Fabric, network: nn.Module, x: Tensor, settings: SearchSettings) -> Tensor:
    """What the network says, in full precision even where it computed in less."""
    with fabric.autocast():
        prediction = network(cast(fabric, x, settings))
    return prediction.float() if prediction.dtype in (torch.bfloat16, torch.float16) else prediction


@torch.no_grad()
def evaluate(
    fabric: Fabric, network: nn.Module, problem: Problem, split: Split, settings: SearchSettings
) -> tuple[float, float]:  # loss per example, metric
    """Loss and metric of the network in eval mode, each process taking its share of the examples."""
    was_training = {module: module.training for module in network.modules()}
    network.eval()
    same_buffers(fabric, network)
    try:
        shares = torch.arange(len(split)).tensor_split(fabric.world_size)
        # A process without a share still predicts one example, whose shape it needs to take part.
        own = shares[fabric.global_rank] if len(shares[fabric.global_rank]) else torch.zeros(1, dtype=torch.long)
        size = settings.eval_batch_size or max(1, -(-settings.batch_size // fabric.world_size))
        parts = [predict(fabric, network, split.x[i], settings) for i in own.split(size)]
        predictions = gather(fabric, torch.cat(parts)[: len(shares[fabric.global_rank])], [len(s) for s in shares])
    finally:
        for module, training in was_training.items():
            module.training = training
    y = cast(fabric, split.y, settings)
    loss = float(problem.loss(predictions, y))
    return loss / len(split) if problem.reduction == "sum" else loss, float(problem.metric.function(predictions, y))
