"""Several butterflies of the same radices made dense at once: for small sizes, where every call counts, and arithmetic does not."""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.merge import merge
from xdops.matrices.pairs import to_complex
from xdops.matrices.radices import strides_of


def dense_butterflies(butterflies: Sequence[Butterfly]) -> list[Tensor]:
    """Each as a complex (n, n) matrix; all have the radices of the first."""
    first, count = butterflies[0], len(butterflies)
    assert all(b.radices == first.radices for b in butterflies)
    # A decreasing butterfly is the transpose of the increasing one of transposed factors.
    order = sorted(range(count), key=lambda i: not butterflies[i].increasing)
    rising = sum(b.increasing for b in butterflies)
    values = to_complex(torch.stack([butterflies[i].values for i in order]))
    factors = []
    parts = values.split([first.n * r for r in first.radices], dim=1)
    for part, r, s in zip(parts, first.radices, strides_of(first.radices), strict=True):
        factor = part.reshape(count, -1, s, r, r)
        factors.append(torch.cat((factor[:rising], factor[rising:].mT)).flatten(0, 1))
    merged = merge(factors, increasing=True)[:, 0].unbind()
    dense: list[Tensor] = [merged[0]] * count
    for place, i in enumerate(order):
        dense[i] = merged[place] if place < rising else merged[place].mT
    return dense


def dense_factors(*matrices: KMatrix) -> list[list[Tensor]]:
    """The butterflies of several K-matrices of one size as dense matrices, each list in the order they are applied."""
    dense = iter(dense_butterflies([b for m in matrices for b in m.butterflies]))
    return [[next(dense) for _ in m.butterflies] for m in matrices]
