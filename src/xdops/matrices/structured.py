"""What every structured matrix can do, from seven small methods.

A subclass says how it multiplies (`_staged`, `_grouped`, `_dense`), transposes (`_transpose`) and conjugates (`_conj`), how many
numbers describe it (`num_parameters`) and of which `dtype`; everything else follows here and is tested against `to_dense()` by one
law suite.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.matrices.matrix_plan import MatrixPlan, plan_matrix
from xdops.matrices.pairs import as_complex, check_floating

Rows = Sequence[int] | Tensor | slice | None


class StructuredMatrix(ABC):
    """An n x n complex matrix with an efficient product, or half of one. Immutable: every method returns a new matrix."""

    n: int
    depth: int

    @abstractmethod
    def _staged(self, x: Tensor, rows: Tensor | None) -> Tensor:
        """(..., m) complex -> (..., rows): the definition, factor by factor, touching only what is needed."""

    @abstractmethod
    def _grouped(self, x: Tensor, rows: Tensor | None) -> Tensor:
        """(..., m) complex -> (..., rows): factors merged into block-diagonal groups, applied as batched products."""

    @abstractmethod
    def _dense(self, columns: int, rows: Tensor | None) -> Tensor:
        """The given rows of the first `columns` columns, complex."""

    @abstractmethod
    def _transpose(self) -> Self: ...

    @abstractmethod
    def _conj(self) -> Self: ...

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """How many real numbers describe the matrix."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The real dtype of the stored pairs."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def description_length(self) -> int:
        """Bits that describe the matrix."""
        return self.num_parameters * torch.finfo(self.dtype).bits

    def to_dense(self, columns: int | None = None, rows: Rows = None) -> Tensor:
        """The matrix itself, complex; or only its first `columns` columns and the given rows."""
        width = self.shape[1]
        columns = width if columns is None else columns
        if not 1 <= columns <= width:
            raise XDError(f"{columns} columns", f"1 to {width}", f"columns={width}")
        return self._dense(columns, self._row_index(rows))

    def apply(self, x: Tensor, dim: int = -1, rows: Rows = None, plan: str | MatrixPlan = "auto") -> Tensor:
        """Multiply along `dim` of x, real or complex; a length m shorter than a row uses only the first m columns."""
        check_floating(x.dtype, "an input")
        m, (height, width) = x.shape[dim], self.shape
        if m > width:
            raise XDError(
                f"an input of length {m} along dimension {dim}",
                f"at most {width}, the size of the matrix",
                f"a matrix of size {m}, or shorten the input",
            )
        index = self._row_index(rows)
        if not isinstance(plan, MatrixPlan):
            plan = plan_matrix(self.n, m, height if index is None else len(index), plan)
        x = as_complex(x).movedim(dim, -1)
        if plan.method == "dense":
            matrix = self._dense(m, index)
            dtype = torch.promote_types(matrix.dtype, x.dtype)
            y = x.to(dtype) @ matrix.to(dtype).mT
        elif plan.method == "grouped":
            y = self._grouped(x, index)
        else:
            y = self._staged(x, index)
        return y.movedim(-1, dim)

    def transpose(self) -> Self:
        return self._transpose()

    def conj(self) -> Self:
        return self._conj()

    def adjoint(self) -> Self:
        """The conjugate transpose."""
        return self._transpose()._conj()

    @property
    def T(self) -> Self:
        return self.transpose()

    @property
    def H(self) -> Self:
        return self.adjoint()

    def _row_index(self, rows: Rows) -> Tensor | None:
        if rows is None:
            return None
        height = self.shape[0]
        if isinstance(rows, slice):
            rows = range(height)[rows]
        index = rows if isinstance(rows, Tensor) else torch.tensor(list(rows), dtype=torch.long, device="cpu")
        if index.dtype != torch.long or index.dim() != 1 or (len(index) and not 0 <= int(index.min()) <= int(index.max()) < height):
            raise XDError(f"rows {index.tolist()}", f"integers from 0 to {height - 1}", "rows=slice(0, m)")
        return index

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, depth={self.depth}, parameters={self.num_parameters})"
