"""Proteins as examples of a search: maps of features in, distance maps out, each of its own size."""

import zlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from xdops.data.proteins.protein import Protein
from xdops.search import Batch
from xdops.search.examples import fingerprint


@dataclass(frozen=True, eq=False)
class Proteins:
    """Examples of a search. The 57 maps are made when they are asked for: they take 14 times the memory of the rest."""

    proteins: tuple[Protein, ...]

    def __len__(self) -> int:
        return len(self.proteins)

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        """Padded to the longest with what does not count: x (N, 57, L, L), y (N, L, L, 1), mask (N, L, L)."""
        chosen = [self.proteins[i] for i in indices.tolist()]
        parts = ([p.features() for p in chosen], [p.distances for p in chosen], [p.known for p in chosen])
        x, y, mask = (torch.stack([pad(t, max(map(len, chosen))) for t in tensors]) for tensors in parts)
        return Batch(x, y[..., None], mask)

    def weight(self, indices: Tensor) -> int:
        """Every protein weighs the same, whatever its length."""
        return len(indices)

    def signature(self) -> dict[str, Any]:
        each = [[p.id, *(fingerprint(t)["crc32"] for t in (p.residue, p.pair, p.distances, p.known))] for p in self.proteins]
        return {"proteins": len(self), "residues": sum(map(len, self.proteins)), "crc32": zlib.crc32(repr(each).encode())}


def pad(maps: Tensor, length: int) -> Tensor:
    """(..., L, L) with zeros at the far ends, up to `length`."""
    missing = length - maps.shape[-1]
    return F.pad(maps, (0, missing, 0, missing))
