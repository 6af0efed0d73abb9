"""An operation as dense matrices, one set per dimension: small enough to be looked at.

Per dimension an operation with the mean filter w = 1/k is a matrix A = K diag(L w) M, outputs by inputs: for a convolution a band
along the diagonal. With the same w before and after a search, what differs is the architecture alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from xdops.operations.operation import XDOperation


@dataclass(frozen=True)
class DenseOperation:
    """The matrices of one dimension, as NumPy arrays."""

    A: Any  # K diag(L w) M, complex, (outputs, inputs)
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
            rows = torch.arange(axis.out(m)) * axis.stride
            columns = torch.arange(m) * axis.step
            L = L[:, operation.weight_columns[i].cpu()] if operation.places_weight else L[:, :taps]
            w = torch.full((taps,), 1 / taps, dtype=L.dtype)
            A = ((K * (L @ w)) @ M)[rows % axis.size][:, columns % axis.size]
            found.append(DenseOperation(A.numpy(), K.abs().numpy(), L.abs().numpy(), M.abs().numpy()))
    return found
