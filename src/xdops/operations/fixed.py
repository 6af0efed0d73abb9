"""Fixed matrices of merged operations: dense, or as a chain of stages; each as ordinary tensor code, and as the engine takes it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from xdops.engine.build import chain_layout, chain_stages, dense_matrices, kronecker
from xdops.engine.chains import ChainLayout
from xdops.engine.geometry import Part
from xdops.engine.planar import matmul, rotate
from xdops.engine.transforms import FEW_COLUMNS
from xdops.matrices import KMatrix

#: Per dimension.
GridRanges = Sequence[range]


@dataclass(frozen=True)
class InUse:
    """What the engine takes: a dense planar matrix, or a chain's stages and layout."""

    tensors: list[Tensor]
    layout: ChainLayout | None


def matrix_of(module: nn.Module) -> "DenseMatrix | ChainMatrix":
    assert isinstance(module, DenseMatrix | ChainMatrix)
    return module


def points_in(ranges: GridRanges) -> int:
    """How many points a grid of these ranges has."""
    points = 1
    for one in ranges:
        points *= len(one)
    return points


def matrix_modules(matrices: Sequence[KMatrix], grouping: Sequence[tuple[int, ...] | None], dtype: torch.dtype) -> list[nn.Module]:
    return [
        dense_matrix([A], dtype) if cut is None else chain_matrix(A, cut, dtype) for A, cut in zip(matrices, grouping, strict=True)
    ]


def dense_matrix(matrices: Sequence[KMatrix], dtype: torch.dtype) -> "DenseMatrix":
    whole = dense_matrices(matrices, [Part(range(A.shape[0]), range(A.shape[1])) for A in matrices])
    sizes = [A.shape[0] for A in matrices], [A.shape[1] for A in matrices]
    return DenseMatrix(kronecker(whole).to(dtype).contiguous(), *sizes)


def chain_matrix(matrix: KMatrix, cut: tuple[int, ...], dtype: torch.dtype) -> "ChainMatrix":
    layout = chain_layout(matrix, cut, Part(range(matrix.shape[0]), range(matrix.shape[1])))
    return ChainMatrix([stage.to(dtype) for stage in chain_stages(matrix, cut, layout)], layout)


class DenseMatrix(nn.Module):
    """A planar matrix along one dimension, or along several that are flattened into one: rows and columns are grids then."""

    matrix: Tensor

    def __init__(self, matrix: Tensor, rows: Sequence[int], columns: Sequence[int]) -> None:
        super().__init__()
        self.rows, self.columns = tuple(rows), tuple(columns)
        self.register_buffer("matrix", matrix)

    def rows_in_use(self, rows: GridRanges) -> InUse:
        return InUse([self._rows(rows).contiguous()], None)

    def columns_in_use(self, columns: GridRanges) -> InUse:
        return InUse([self._columns(columns).contiguous()], None)

    def _rows(self, rows: GridRanges) -> Tensor:
        A = self.matrix
        return (
            A
            if points_in(rows) == A.shape[1]
            else A.unflatten(1, self.rows)[(slice(None), *[slice_of(r) for r in rows])].flatten(1, len(rows))
        )

    def _columns(self, columns: GridRanges) -> Tensor:
        A = self.matrix
        if points_in(columns) == A.shape[2]:
            return A
        return A.unflatten(2, self.columns)[(slice(None), slice(None), *[slice_of(c) for c in columns])].flatten(2)

    def enter(self, x: Tensor, columns: GridRanges) -> Tensor:
        """x (1, q, m) real or (2, q, m) -> (2, n, q)."""
        A = self._columns(columns)
        y = torch.matmul(A.flatten(0, 1), x[0].t())
        if x.shape[0] == 2:
            y = torch.addmm(y, rotate(A).flatten(0, 1), x[1].t())
        return y.unflatten(0, (2, -1))

    def leave(self, y: Tensor, rows: GridRanges, real: bool) -> Tensor:
        """y (2, n, q) -> (1, q, r), the real part, or (2, q, r)."""
        A = self._rows(rows)
        flat, turned = y.flatten(0, 1), [torch.cat((A[0], -A[1]), dim=1)]
        if not real:
            turned.append(torch.cat((A[1], A[0]), dim=1))
        few = A.shape[1] < FEW_COLUMNS  # BLAS is slow at writing few columns: they are written as rows and turned around
        return torch.stack([(a @ flat).t() if few else flat.t() @ a.t().contiguous() for a in turned])


class ChainMatrix(nn.Module):
    """A planar matrix as stages that mix one digit each; see `engine.chains`."""

    def __init__(self, stages: Sequence[Tensor], layout: ChainLayout) -> None:
        super().__init__()
        self.layout, self.digits, self.sequence = layout, layout.digits, layout.sequence
        for i, stage in enumerate(stages):
            self.register_buffer(f"stage_{i}", stage)

    def rows_in_use(self, rows: GridRanges) -> InUse:
        return InUse(self._tensors(), replace(self.layout, rows=(rows[0].step, len(rows[0]))))

    def columns_in_use(self, columns: GridRanges) -> InUse:
        return InUse(self._tensors(), replace(self.layout, columns=len(columns[0])))

    def _tensors(self) -> list[Tensor]:
        return [getattr(self, f"stage_{i}") for i in range(len(self.sequence))]

    def enter(self, x: Tensor, columns: GridRanges) -> Tensor:
        return self._stages(nn.functional.pad(x, (0, math.prod(self.digits) - x.shape[2])).transpose(-2, -1), real=False)

    def leave(self, y: Tensor, rows: GridRanges, real: bool) -> Tensor:
        return self._stages(y, real)[:, slice_of(rows[0])].transpose(-2, -1)

    def _stages(self, t: Tensor, real: bool) -> Tensor:
        """(1 or 2, n, q) -> (1 or 2, n, q). A digit that was mixed comes last in memory, so that nothing is copied in between."""
        t, order = t.unflatten(1, self.digits), list(range(len(self.digits)))
        for i, digit in enumerate(self.sequence):
            rest = [d for d in order if d != digit]
            natural = sorted(rest)
            T = getattr(self, f"stage_{i}")
            T = T.permute(0, *(1 + natural.index(d) for d in rest), T.dim() - 2, T.dim() - 1)
            x = t.movedim(1 + order.index(digit), -2)
            if x.shape[0] == 1:
                t = T @ x
            elif real and i == len(self.sequence) - 1:
                t = (T[0] @ x[0] - T[1] @ x[1])[None]
            else:
                t = matmul(T, x)
            order = [*rest, digit]
        return t.permute(0, *(1 + order.index(d) for d in range(len(order))), t.dim() - 1).flatten(1, -2)


def slice_of(one: range) -> slice:
    return slice(one.start, one.stop, one.step)
