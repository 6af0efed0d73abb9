"""An operation as dense matrices, one set per dimension: small enough to be looked at.

Per dimension an operation with the mean filter w = 1/k is a matrix A = K diag(L w) M, outputs by inputs: for a convolution a band
along the diagonal. With the same w before and after a search, what differs is the architecture alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xdops.engine.forms.taps import causal_mask
from xdops.engine.geometry import pad, place
from xdops.operations.axes import Axis
from xdops.operations.operation import XDOperation


@dataclass(frozen=True)
class DenseOperation:
    """The matrices of one dimension, as NumPy arrays."""

    A: Any  # K diag(L w) M, complex, (outputs, inputs): of the layer's own inputs, padding included, masked if it is causal
    K: Any  # moduli, (n, n)
    L: Any  # (n, taps)
    M: Any  # (n, n)


def dense_operations(operation: XDOperation, inputs: Sequence[int]) -> list[DenseOperation]:
    """One per dimension, for inputs of these sizes."""
    found = []
    with torch.no_grad():
        for i, (axis, m) in enumerate(zip(operation.axes, inputs, strict=True)):
            K, L, M = (operation.matrix(name).matrices[i].to_dense().cpu() for name in "KLM")
            taps = operation.kernel_size[i]
            L = L[:, list(operation.columns[i])] if operation.columns else L[:, :taps]
            w = torch.full((taps,), 1 / taps, dtype=L.dtype)
            inputs_at = placed(axis, m, operation.padding_mode).to(L.dtype)
            rows = axis.rows(m)
            A = ((K * (L @ w)) @ M)[torch.tensor(rows) % axis.size, : len(inputs_at)]
            if operation.causal is not None:
                A = A * causal_mask(rows, range(len(inputs_at)), operation.causal, A)
            A = A @ inputs_at
            found.append(DenseOperation(A.numpy(), K.abs().numpy(), L.abs().numpy(), M.abs().numpy()))
    return found


def placed(axis: Axis, m: int, padding_mode: str) -> Tensor:
    """(columns, m): where each of m inputs stands, padding included; where that is circular, some stand at several places."""
    units = torch.eye(m, dtype=torch.float64)[None]
    return place(pad(units, (axis,), padding_mode), (axis,), (m,))[0].T
