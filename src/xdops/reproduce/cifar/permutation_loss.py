"""The auxiliary loss of the paper's footnote: the first layer's M should begin with permutations, those that put images in order.

At depth 3, M = F Q per dimension: the DFT's butterfly after two more, whose product Q starts as the identity. On permuted images
the right Q is the inverse permutation. That Q be *some* permutation says nothing, as it starts as one; and from there no gradient
leads to another: a block of a butterfly that is the identity multiplies others that are, so that exchanging two entries moves
nothing to first order. So the loss says which permutation, block by block:

1. Which one: neighbouring rows of a natural image are alike. The rows are joined to a path, closest pairs first, by their mean
   squared difference over the training images. No label and nothing of the true order goes into it.
2. Block by block: routing writes that order as two butterflies of exchanges, and the loss is the squared distance of the blocks of
   M from these. It is a convex function of the parameters, minimal (zero) at that permutation alone.

Its weight falls linearly to zero over the first `until` of training; from there the labels alone decide.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from xdops.errors import XDError
from xdops.matrices import KMatrix, LearnableKMatrix, permutation
from xdops.operations import XDOperation


@dataclass(frozen=True)
class PermutationLoss:
    """orders: per dimension, which row (column) of a given image comes first, second, ..."""

    layer: str
    orders: tuple[tuple[int, ...], ...]
    weight: float
    until: float

    @classmethod
    def from_images(cls, layer: str, x: Tensor, weight: float, until: float) -> "PermutationLoss":
        """x: training images (N, channels, height, width)."""
        orders = tuple(tuple(path(row_distances(x, dim))) for dim in range(2, x.dim()))
        return cls(layer, orders, weight, until)

    def __call__(self, network: nn.Module, progress: float) -> Tensor:
        M = first_matrices(network, self.layer)
        weight = self.weight * max(0.0, 1 - progress / self.until)
        return weight * torch.stack([distance(m, order) for m, order in zip(M, self.orders, strict=True)]).sum()

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def first_matrices(network: nn.Module, layer: str) -> list[LearnableKMatrix]:
    """M of the layer, per dimension; deep enough to begin with a permutation."""
    op = network.get_submodule(layer)
    if not isinstance(op, XDOperation) or op.depth[2] < 3:
        raise XDError(f"layer {layer}, a {op}", "an XD-operation whose M has depth 3 or more", "XDConfig(depth=3)")
    return [cast(LearnableKMatrix, m) for m in op.M]


def distance(M: LearnableKMatrix, order: Sequence[int]) -> Tensor:
    """Of the two butterflies that are applied first from those of the permutation, squared, per row."""
    radices, increasing, _ = M.layout[0]
    target = routed(tuple(order), tuple(radices), increasing, M.values[0].dtype)
    pairs = zip(list(M.values)[:2], target.butterflies, strict=True)
    return torch.stack([(v - b.values.to(v)).square().sum() for v, b in pairs]).sum() / M.n


@lru_cache(maxsize=64)
def routed(order: tuple[int, ...], radices: tuple[int, ...], increasing: bool, dtype: torch.dtype) -> KMatrix:
    """The permutation as two butterflies; found once, since every training step asks for it."""
    return permutation(order, radices, "increasing" if increasing else "decreasing", dtype)


def mixing(M: LearnableKMatrix) -> Tensor:
    """Q, what M does before its last butterfly, the DFT's at the start; (n, n), complex."""
    return KMatrix(M.matrix.butterflies[:-1]).to_dense()


def row_distances(x: Tensor, dim: int) -> Tensor:
    """Mean squared difference of every two rows (columns, ...) over the images."""
    rows = x.movedim(dim, 0).flatten(1).double()
    products = rows @ rows.T / rows.shape[1]
    squares = products.diagonal()
    return squares[:, None] + squares[None, :] - 2 * products


def path(distances: Tensor) -> list[int]:
    """All points in a row: the closest pairs are joined first, unless one of them has two neighbours or they are joined already."""
    n = len(distances)
    first, second = torch.triu_indices(n, n, 1)
    nearest = distances[first, second].argsort()
    part = list(range(n))
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in zip(first[nearest].tolist(), second[nearest].tolist(), strict=True):
        if len(neighbours[a]) < 2 and len(neighbours[b]) < 2 and part[a] != part[b]:
            neighbours[a].append(b)
            neighbours[b].append(a)
            part = [part[a] if p == part[b] else p for p in part]
    found = [next(i for i in range(n) if len(neighbours[i]) < 2)]
    while len(found) < n:
        found.append(next(i for i in neighbours[found[-1]] if i not in found[-2:]))
    return found
