"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So where there are kernels, all of it is one node in torch's graph; elsewhere it is torch's own products.
"""

import torch
from torch import Tensor

from xdops.engine.kernels import can_run
from xdops.matrices import KMatrix
from xdops.matrices.pairs import to_complex


def tap_rows(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n)."""
    values = [b.values for m in (K, L, M) for b in m.butterflies]
    if torch.compiler.is_compiling() or not can_run(values[0].dtype, values[0].device.type):
        return tap_rows_by_torch(row, taps, K, L, M)
    from xdops.engine.kernels.tap_rows import tap_row_pairs

    layouts = tuple(tuple((b.radices, b.increasing) for b in m.butterflies) for m in (K, L, M))
    return to_complex(tap_row_pairs(row, taps, layouts, torch.cat(values)))


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and for any transformation of torch's."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))
