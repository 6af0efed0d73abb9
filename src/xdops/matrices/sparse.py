"""Any matrix with at most n nonzeros as four butterflies: copy, permute (two), add up.

Every nonzero gets a slot. One butterfly copies column c to the slots of its nonzeros, a routed permutation brings the slots of
columns to the slots of rows, and one butterfly, the transpose of a copying one, adds the slots of a row up. Which slots a column
gets is up to `placing`; where it finds no assignment, neighbouring radices are merged until it does: fewer, larger blocks, the
same depth.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.placing import Copies, copies
from xdops.matrices.special import _real, permutation, resolve_radices


@checked
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
    while (found := _spread_and_gather(columns, rows, radices)) is None:
        radices = (*radices[:-2], radices[-2] * radices[-1])
    spread, gather, increasing = found
    weights = torch.zeros(n, dtype=values.dtype)
    weights[spread.slots] = values
    route = permutation(
        _complete(spread.slots, gather.slots, n), radices, "decreasing" if increasing else "increasing", torch.float64
    )
    first = KMatrix([Butterfly.from_factors(spread.factors, increasing, torch.float64)]).scale_rows(weights)
    last = KMatrix([Butterfly.from_factors(gather.factors, increasing, torch.float64).transpose()])
    return (last @ route @ first).to(_real(dtype))


def _spread_and_gather(columns: Tensor, rows: Tensor, radices: Sequence[int]) -> tuple[Copies, Copies, bool] | None:
    """Copying butterflies for columns and for rows, of one direction so that the four alternate, and that direction."""
    for increasing in (False, True):
        spread = copies(columns, radices, increasing)
        gather = None if spread is None else copies(rows, radices, increasing)
        if spread is not None and gather is not None:
            return spread, gather, increasing
    return None


def _complete(copied: Tensor, summed: Tensor, n: int) -> Tensor:
    """A permutation with order[summed[e]] = copied[e]; the unused slots, which carry zeros, fill the rest."""
    order = torch.full((n,), -1, dtype=torch.long)
    order[summed] = copied
    unused = torch.ones(n, dtype=torch.bool)
    unused[copied] = False
    order[order < 0] = unused.nonzero().flatten()
    return order
