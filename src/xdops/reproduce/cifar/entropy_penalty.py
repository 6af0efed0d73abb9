"""A penalty that encourages permutations and knows nothing but the matrix: how far the first layer's M is from beginning with one.

At depth 3, M = F Q per dimension: the DFT's butterfly after two more, whose product Q starts as the identity. A matrix whose rows
and columns have one entry each is a permutation up to signs, phases and scale; what says so is the entropy of |Q|^2, each row and
each column as a distribution: zero there, log n where all entries are alike.

Its weight *rises* from zero to `weight` through training: Q starts as a permutation, though the wrong one, and a penalty from the
beginning would hold it there. So the labels lead Q away from where it was, and what they leave open is settled in the end.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xdops.reproduce.cifar.permutation_loss import first_matrices, mixing

#: Added to |Q|^2, so that the slope of p log p is finite where p is zero.
LEAST = 1e-12


@dataclass(frozen=True)
class EntropyPenalty:
    """Of the layer that sees the images, summed over its dimensions."""

    layer: str
    weight: float

    def __call__(self, network: nn.Module, progress: float) -> Tensor:
        entropies = [entropy(mixing(m)) for m in first_matrices(network, self.layer)]
        return self.weight * progress * torch.stack(entropies).sum()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "entropy", **dataclasses.asdict(self)}


def entropy(Q: Tensor) -> Tensor:  # (n, n), complex -> a number from 0 to 1
    """Mean entropy of the rows and columns of |Q|^2 over log n: 0 for a permutation, 1 for a Fourier matrix."""
    shares = Q.abs().square() + LEAST
    of_rows = torch.special.entr(shares / shares.sum(dim=1, keepdim=True)).sum(dim=1).mean()
    of_columns = torch.special.entr(shares / shares.sum(dim=0, keepdim=True)).sum(dim=0).mean()
    return (of_rows + of_columns) / (2 * math.log(len(Q)))
