"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So where there are kernels, all of it is one node in torch's graph; elsewhere it is torch's own products.
"""

import torch
from torch import Tensor

from xdops.engine.kernels import can_run
from xdops.engine.operator import is_traced
from xdops.matrices import KMatrix


def tap_rows(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n)."""
    values = K.butterflies[0].values
    if is_traced(values) or not can_run(values.dtype, values.device.type):
        return tap_rows_by_torch(row, taps, K, L, M)
    from xdops.engine.kernels.tap_rows import tap_rows_by_kernel

    return tap_rows_by_kernel(row, taps, K, L, M)


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and for any transformation of torch's."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))
