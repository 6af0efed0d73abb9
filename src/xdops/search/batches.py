"""Which examples each step sees: a seeded permutation per epoch, cut into steps and those into batches, in memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.search.seeds import derive_seed
from xdops.search.settings import SearchSettings


@dataclass(frozen=True)
class Step:
    """One optimizer step: the indices of its batches, the same on every process."""

    batches: tuple[Tensor, ...]

    @property
    def examples(self) -> int:
        return sum(len(b) for b in self.batches)


def steps_of_epoch(examples: int, settings: SearchSettings, epoch: int) -> list[Step]:
    """The whole epoch, ragged end included."""
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "shuffle", epoch))
    order = torch.randperm(examples, generator=generator)
    whole = settings.batch_size * settings.accumulate
    return [Step(tuple(part.split(settings.batch_size))) for part in order.split(whole)]


def step_count(examples: int, settings: SearchSettings) -> int:
    return -(-examples // (settings.batch_size * settings.accumulate))


def share(batch: Tensor, rank: int, world: int) -> tuple[slice, int]:
    """This process's part of a batch, and how many examples of it count.

    A process left without examples takes the first one and counts none of it, since all must take part in the gradient's reduction.
    """
    base, longer = divmod(len(batch), world)
    start, count = rank * base + min(rank, longer), base + (rank < longer)
    return (slice(start, start + count), count) if count else (slice(0, 1), 0)
