"""Any matrix with at most n nonzeros as four butterflies: copy, permute (two), add up.

Every nonzero gets a slot. A decreasing butterfly copies column c to the slots of its nonzeros, in column order; a routed
permutation brings the slots into row order; an increasing butterfly adds the slots of a row up. Copying works without
collisions whenever slots advance at least as fast as columns, that is, when no column up to the last one in use is empty, or
when empty columns can be given a slot of their own. Otherwise neighbouring radices are merged until it works: fewer, larger
blocks, the same depth.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.radices import strides_of
from xdops.matrices.special import _real, permutation, resolve_radices


def sparse(matrix: Tensor, radices: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """The n x n matrix (dense or torch.sparse, real or complex) with at most n nonzeros, exactly, at depth 4."""
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        raise XDError(f"a matrix of shape {tuple(matrix.shape)}", "a square matrix", "pad it with zeros to (n, n)")
    n = matrix.shape[0]
    matrix = matrix.to_sparse().coalesce()
    rows, columns = matrix.indices()
    values = matrix.values()
    rows, columns, values = rows[values != 0], columns[values != 0], values[values != 0]
    if len(values) > n:
        raise XDError(
            f"a {n} x {n} matrix with {len(values)} nonzeros",
            f"at most {n} nonzeros for a depth-4 K-matrix",
            f"a larger size: pad the matrix with zeros to {len(values)} x {len(values)}",
        )
    radices = resolve_radices(n, radices)
    while True:
        copied, copy = _copy(columns, radices)
        summed, add = _copy(rows, radices)
        if copy is not None and add is not None:
            break
        radices = (*radices[:-2], radices[-2] * radices[-1])
    weights = torch.zeros(n, dtype=values.dtype)
    weights[copied] = values
    order = _complete(copied, summed, n)
    spread = KMatrix([Butterfly.from_factors(copy, increasing=False, dtype=torch.float64)]).scale_rows(weights)
    gather = KMatrix([Butterfly.from_factors(add, increasing=False, dtype=torch.float64).transpose()])
    real = _real(dtype)
    return (gather @ permutation(order, radices, first="increasing", dtype=torch.float64) @ spread).to(real)


def _copy(index: Tensor, radices: Sequence[int]) -> tuple[Tensor, list[Tensor] | None]:
    """Slot of every nonzero in the order of its `index`, and the factors that copy there; None if copies would collide."""
    n = strides_of(radices)[-1] * radices[-1]
    counts = torch.bincount(index, minlength=n)
    if len(index):
        last = int(index.max()) + 1
        padded = counts.clone()
        padded[:last] = padded[:last].clamp(min=1)  # an empty column in between gets a slot of its own
        counts = padded if int(padded.sum()) <= n else counts
    begin = counts.cumsum(0) - counts
    order = torch.argsort(index, stable=True)
    sorted_index = index[order]
    within = torch.arange(len(index)) - (torch.searchsorted(sorted_index, sorted_index))
    slot = torch.empty_like(index)
    slot[order] = begin[sorted_index] + within

    factors = []
    for r, s in zip(radices, strides_of(radices), strict=True):
        # Before this factor a copy stands at block * rs + (c mod rs), after it at (slot div s) * s + c mod s.
        factor = torch.zeros(n // (r * s), s, r, r, dtype=torch.float64)
        factor[slot // (r * s), index % s, slot // s % r, index // s % r] = 1
        if bool((factor.sum(dim=-1) > 1).any()) or _collide(slot // s * s + index % s, index):
            return slot, None
        factors.append(factor)
    return slot, factors


def _collide(position: Tensor, index: Tensor) -> bool:
    """Whether two different columns would stand at one position."""
    n = int(index.max()) + 1 if len(index) else 1
    return len(torch.unique(position)) != len(torch.unique(position * n + index))


def _complete(copied: Tensor, summed: Tensor, n: int) -> Tensor:
    """A permutation with order[summed[e]] = copied[e]; the unused slots, which carry zeros, fill the rest."""
    order = torch.full((n,), -1, dtype=torch.long)
    order[summed] = copied
    unused = torch.ones(n, dtype=torch.bool)
    unused[copied] = False
    order[order < 0] = unused.nonzero().flatten()
    return order
