"""Kronecker products over dimensions: one matrix per dimension of a grid, applied dimension by dimension."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.errors import XDError, several
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.matrix_plan import MatrixPlan
from xdops.matrices.structured import Rows, StructuredMatrix


class Kronecker(StructuredMatrix):
    """B_1 (x) ... (x) B_N on vectors that are grids of `sizes`, flattened with the last dimension fastest."""

    def __init__(self, matrices: Sequence[KMatrix]) -> None:
        if not matrices:
            raise XDError("no matrices", "at least one", "Kronecker([matrix])")
        self.matrices = tuple(matrices)
        self.sizes = tuple(m.shape[1] for m in self.matrices)
        self.n = math.prod(m.n for m in self.matrices)
        self.depth = max(m.depth for m in self.matrices)

    @property
    def shape(self) -> tuple[int, int]:
        return math.prod(m.shape[0] for m in self.matrices), math.prod(self.sizes)

    @property
    def num_parameters(self) -> int:
        return sum(m.num_parameters for m in self.matrices)

    @property
    def dtype(self) -> torch.dtype:
        return self.matrices[0].dtype

    def _transpose(self) -> "Kronecker":
        return Kronecker([m.transpose() for m in self.matrices])

    def _conj(self) -> "Kronecker":
        return Kronecker([m.conj() for m in self.matrices])

    def apply_grid(self, x: Tensor, rows: Sequence[Rows] | None = None, plan: str | MatrixPlan = "auto") -> Tensor:
        """Multiply along the last N dimensions of x, each no longer than its matrix is wide; `rows` per dimension."""
        dims = len(self.matrices)
        if x.dim() < dims:
            raise XDError(f"an input with {several(x.dim(), 'dimension')}", f"at least {dims}", "x[None]")
        for i, matrix in enumerate(self.matrices):
            x = matrix.apply(x, dim=i - dims, rows=None if rows is None else rows[i], plan=plan)
        return x

    def _staged(self, x: Tensor, rows: Tensor | None) -> Tensor:
        return self._on_grid(x, rows, "staged")

    def _grouped(self, x: Tensor, rows: Tensor | None) -> Tensor:
        return self._on_grid(x, rows, "grouped")

    def _on_grid(self, x: Tensor, rows: Tensor | None, plan: str) -> Tensor:
        x = torch.nn.functional.pad(x, (0, self.shape[1] - x.shape[-1]))
        y = self.apply_grid(x.unflatten(-1, self.sizes), plan=plan).flatten(-len(self.sizes))
        return y if rows is None else y[..., rows]

    def _dense(self, columns: int, rows: Tensor | None) -> Tensor:
        dense = self.matrices[0].to_dense()
        for m in self.matrices[1:]:
            dense = torch.kron(dense, m.to_dense())
        return dense[:, :columns] if rows is None else dense[rows, :columns]

    def __matmul__(self, other: "Kronecker") -> "Kronecker":
        if not isinstance(other, Kronecker):
            return NotImplemented
        if len(other.matrices) != len(self.matrices):
            raise XDError(
                f"products of {len(self.matrices)} and {len(other.matrices)} matrices",
                "as many on both sides",
                "one matrix per dimension",
            )
        return Kronecker([a @ b for a, b in zip(self.matrices, other.matrices, strict=True)])
