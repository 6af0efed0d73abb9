"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So where there are kernels, all of it is one node in torch's graph; elsewhere it is torch's own products.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.engine.description import MatrixLayout
from xdops.engine.kernels import can_run
from xdops.engine.tracing import is_traced
from xdops.matrices import KMatrix
from xdops.matrices.learnable import assemble


def tap_rows(row: int, taps: int, layouts: Sequence[MatrixLayout], values: Sequence[Tensor]) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n), from layouts of K, L and M and all their values."""
    matrices, rest = [], list(values)
    for layout in layouts:
        matrices.append(assemble(layout, rest[: len(layout)]))
        rest = rest[len(layout) :]
    if is_traced(values[0]) or not can_run(values[0].dtype, values[0].device.type):
        return tap_rows_by_torch(row, taps, *matrices)
    from xdops.engine.kernels.tap_rows import tap_rows_by_kernel

    return tap_rows_by_kernel(row, taps, *matrices)


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and under any of torch's transforms."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))
