"""The training loop: epochs of steps, each step the weights' and the architecture's at once."""

import dataclasses
import gc
import math
import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from xdops.convert import novelty
from xdops.convert.refusals import check_values
from xdops.engine.machine import from_document, rates, set_rates
from xdops.search.batches import Step, share, step_count, steps_of_epoch
from xdops.search.batchnorm import synchronise_
from xdops.search.checkpoint import Checkpoint
from xdops.search.distributed import parallel, total, unsynchronised
from xdops.search.examples import Examples
from xdops.search.packing import finite, load_network, load_optimizer, pack_network, pack_optimizer
from xdops.search.parameters import Parameters
from xdops.search.predictions import loss_and_metric, on_device, predict
from xdops.search.problem import MeanMetric, Metric, Problem
from xdops.search.results import Diverged, EpochRecord
from xdops.search.schedule import schedule_factor
from xdops.search.scores import Scores, score
from xdops.search.seeds import derive_seed, seed_all
from xdops.search.settings import SearchSettings

#: A loss this many times the first one (or 1) has diverged, though still finite.
_EXPLODED = 1e6


@dataclass
class Position:
    """Where a run is: with weights and optimizers all that it needs to continue exactly."""

    epoch: int = 0  # epochs done
    step: int = 0  # steps done in the epoch at hand
    loss: float = 0.0  # summed over the epoch's units (examples, or time steps) so far
    seconds: float = 0.0  # spent on the epoch so far
    first_loss: float | None = None
    best: int | None = None  # after how many epochs validation was best
    history: list[EpochRecord] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Position":
        return cls(**data | {"history": [EpochRecord(**r) for r in data["history"]]})


class Loop:
    """One network in training on one process of a run."""

    def __init__(self, fabric: Fabric, network: nn.Module, problem: Problem, settings: SearchSettings) -> None:
        check_values(network, "search")
        self.fabric, self.problem, self.settings = fabric, problem, settings
        if settings.sync_batchnorm and fabric.world_size > 1:
            synchronise_(network)
        self.network = fabric.strategy.precision.convert_module(network)
        fabric.strategy.module_to_device(self.network)
        self.parameters = Parameters(self.network, settings)
        self.position = Position()
        self.moved: dict[str, float] = {}  # novelty by layer after the last epoch
        self._forward: nn.Module | None = None  # the network as it runs in parallel

    # Saving and restoring

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes in training, by name."""
        tensors, _ = pack_network(self.network)
        for name, optimizer in self.parameters.optimizers.items():
            tensors |= pack_optimizer(name, optimizer)[0]
        return tensors

    def facts(self) -> dict[str, Any]:
        """The rest of the state."""
        optimizers = {name: pack_optimizer(name, o)[1] for name, o in self.parameters.optimizers.items()}
        extra = pack_network(self.network)[1]
        return {
            "position": self.position.to_dict(),
            "best": self.position.best,
            "optimizers": optimizers,
            "extra": extra,
            "rates": vars(rates()),  # the plans, and so the sums, of what follows
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        load_network(self.network, checkpoint.tensors, checkpoint.facts["extra"])
        for name, optimizer in self.parameters.optimizers.items():
            load_optimizer(name, optimizer, checkpoint.tensors, checkpoint.facts["optimizers"][name])
        self.position = Position.from_dict(checkpoint.facts["position"])
        if "rates" in checkpoint.facts:
            set_rates(from_document(checkpoint.facts))

    # Training

    def begin_epoch(self) -> list[Step]:
        """Set step sizes and what is frozen; the epoch's steps that are left start at `position.step`."""
        epoch = self.position.epoch
        changed = self.parameters.freeze_architecture(self.settings.frozen(epoch))
        if changed or self._forward is None:
            if self._forward is not None and self._forward is not self.network:
                self._forward = None
                gc.collect()  # the former parallel network's hooks go with it
            self._forward = parallel(self.fabric, self.network)
        for name, optimizer in self.parameters.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self.lr(name)
        self.network.train()
        return steps_of_epoch(len(self.problem.train), self.settings, epoch)

    def lr(self, name: str) -> float:
        """The step size of "weights" or "architecture" in this epoch."""
        validation = [r.validation_metric for r in self.position.history]
        factor = schedule_factor(self.settings.schedule, self.settings.epochs, validation, self.problem.metric)
        return getattr(self.settings, name).lr * factor

    def step(self, step: Step, stop: bool) -> bool:
        """One step of all that learns; says whether any process was asked to stop."""
        started = time.monotonic()
        for optimizer in self.parameters.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        own = sum(self._backward(step, i) for i in range(len(step.batches)))
        loss, stops = total(self.fabric, own, float(stop))
        units = self.weight(step)
        self._check_loss("training loss", loss / units)
        self._clip()
        for name, _ in self.parameters.active():
            self.parameters.optimizers[name].step()
        position = self.position
        position.first_loss = loss / units if position.first_loss is None else position.first_loss
        position.step, position.loss, position.seconds = (
            position.step + 1,
            position.loss + loss,
            position.seconds + time.monotonic() - started,
        )
        return stops > 0

    def weight(self, step: Step) -> int:
        """The units (examples, or time steps) of a step, over all its batches and processes."""
        return sum(self.problem.train.weight(batch) for batch in step.batches)

    def _backward(self, step: Step, i: int) -> float:
        """Add the gradient of batch i; returns this process's loss, summed over its units.

        The step's loss is sum_r loss_r units_r / units over batches and processes r (or sum_r loss_r if losses are sums), and
        the parallel backward pass divides by the number of processes.
        """
        fabric, settings, problem, position = self.fabric, self.settings, self.problem, self.position
        assert self._forward is not None
        indices = step.batches[i]
        part, count = share(indices, fabric.global_rank, fabric.world_size)
        where = (position.epoch, position.step, i)
        generator = torch.Generator().manual_seed(derive_seed(settings.seed, "augment", *where))
        # The whole batch on every process: the same pictures however many processes there are.
        batch = problem.train.batch(indices, generator)
        if problem.augment is not None:
            batch = dataclasses.replace(batch, x=problem.augment(batch.x, generator))
        batch = on_device(fabric, batch.part(part), settings)
        seed_all(derive_seed(settings.seed, "step", *where, fabric.global_rank))
        units = problem.train.weight(indices[part]) if problem.reduction == "mean" else 1
        units = units if count else 0
        scale = units / self.weight(step) if problem.reduction == "mean" else units
        with nullcontext() if i == len(step.batches) - 1 else unsynchronised(self._forward):
            loss = problem.loss(*batch.counted(predict(fabric, self._forward, batch.x, settings)))
            if loss.dim():
                raise TypeError(f"the problem's loss gave a tensor of shape {tuple(loss.shape)}, it must be a scalar")
            fabric.backward(loss * (scale * fabric.world_size) + self._penalty() / len(step.batches))
        return float(loss.detach()) * units if units else 0.0

    def _penalty(self) -> Tensor | float:
        """The same on every process, whose mean the parallel backward pass takes."""
        penalty, position = self.problem.penalty, self.position
        if penalty is None or self.settings.frozen(position.epoch):
            return 0.0
        in_epoch = position.step / step_count(len(self.problem.train), self.settings)
        return penalty(self.network, (position.epoch + in_epoch) / self.settings.epochs)

    def _clip(self) -> None:
        for name, group in self.parameters.active():
            gradients = [p.grad for p in group if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            if not torch.isfinite(norm):
                raise self._diverged(f"a gradient of the {name} that is {float(norm)}")
            if self.settings.clip is not None and (name == "weights" or self.settings.clip_architecture):
                torch.nn.utils.clip_grads_with_norm_(group, self.settings.clip, norm)

    # The end of an epoch

    def end_epoch(self) -> bool:
        """Validate and record; says whether it is the best epoch so far."""
        started = time.monotonic()
        position, metric, train = self.position, self.problem.metric, self.problem.train
        if not finite(self.network):
            raise self._diverged("a parameter that is not finite")
        learns = {name for name, _ in self.parameters.active()}
        lr = {name: self.lr(name) if name in learns else 0.0 for name in ("weights", "architecture")}
        loss, value = self.evaluate(self.problem.validation, "validation")
        self.moved = novelty(self.network)
        record = EpochRecord(
            epoch=position.epoch + 1,
            train_loss=position.loss / train.weight(torch.arange(len(train))),
            validation_loss=loss,
            validation_metric=value,
            lr_weights=lr["weights"],
            lr_architecture=lr["architecture"],
            novelty=mean(self.moved.values()),
            seconds=position.seconds + time.monotonic() - started,
        )
        best = position.best is None or beats(record, position.history[position.best - 1], metric)
        position.history.append(record)
        position.epoch, position.step, position.loss, position.seconds = position.epoch + 1, 0, 0.0, 0.0
        position.best = position.epoch if best else position.best
        return best

    def evaluate(self, examples: Examples, what: str) -> tuple[float, float]:
        """Loss and metric on a part of the data."""
        seed_all(derive_seed(self.settings.seed, "evaluate", self.position.epoch))
        loss, value = loss_and_metric(self.fabric, self.network, self.problem, examples, self.settings)
        self._check_loss(f"{what} loss", loss)
        if not math.isfinite(value):
            raise self._diverged(f"a {what} {self.problem.metric.name} of {value}")
        return loss, value

    def score(self, examples: Examples) -> Scores | None:
        """Every example by itself; None where the metric is not a mean over them."""
        metric = self.problem.metric
        if not isinstance(metric, MeanMetric):
            return None
        seed_all(derive_seed(self.settings.seed, "evaluate", self.position.epoch))
        return score(self.fabric, self.network, self.problem, metric, examples, self.settings)

    def _check_loss(self, what: str, loss: float) -> None:
        limit = _EXPLODED * max(1.0, abs(self.position.first_loss or 0.0))
        if not abs(loss) <= limit:
            raise self._diverged(f"a {what} of {loss:.4g}")

    def _diverged(self, what: str) -> Diverged:
        settings, learning = self.settings, [name for name, _ in self.parameters.active()]
        slower = max(learning, key=lambda name: (getattr(settings, name).lr, name == "architecture"))
        lr = getattr(settings, slower).lr
        clip = ", or --clip 1 (clip=1.0)" if settings.clip is None else ""
        warmup = ", or more warmup epochs" if slower == "architecture" else ""
        return Diverged(
            f"{what} in epoch {self.position.epoch + 1}, step {self.position.step + 1}",
            "finite numbers that stay near where they began; the last good checkpoint is kept",
            f"a smaller step size of the {slower} ({lr / 10:.3g} instead of {lr:.3g}){clip}{warmup}",
        )


def mean(values: Collection[float]) -> float:
    """0 without any."""
    return sum(values) / len(values) if values else 0.0


def beats(new: EpochRecord, old: EpochRecord, metric: Metric) -> bool:
    """Whether an epoch is better on validation; between equal metrics, as accuracy on few examples often is, the loss tells."""
    if new.validation_metric == old.validation_metric:
        return new.validation_loss < old.validation_loss
    return metric.better(new.validation_metric, old.validation_metric)
