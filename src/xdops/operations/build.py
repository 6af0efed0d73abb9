"""From K-matrices to the planar tensors that the fast forms multiply with: dense matrices, or the stages of a chain."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.matrices import KMatrix
from xdops.matrices.merge import merge
from xdops.operations.chains import ChainLayout

#: Up to this size all matrices of one size are merged together, whole: fewer calls, though some columns go unused.
TOGETHER = 96


@dataclass(frozen=True)
class Part:
    """Which rows and columns of a matrix are in use."""

    rows: range
    columns: range


def planar(values: Tensor) -> Tensor:
    """Complex (...) -> real (2, ...)."""
    return torch.view_as_real(values.resolve_conj()).movedim(-1, 0).contiguous()


def dense_matrices(matrices: Sequence[KMatrix], parts: Sequence[Part]) -> list[Tensor]:
    """(2, rows, columns) each. Butterflies of one size and radices are merged in one go."""
    made: list[Tensor | None] = [None] * len(matrices)
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, matrix in enumerate(matrices):
        if matrix.depth == 1 and matrix.n <= TOGETHER:
            alike.setdefault(matrix.radices, []).append(i)
        else:
            made[i] = _dense(matrix, parts[i])
    for indices in alike.values():
        stack = planar(_merged_together([matrices[i] for i in indices]))  # (2, count, n, n), increasing ones transposed
        for k, i in enumerate(indices):
            dense = stack[:, k].mT if matrices[i].butterflies[0].increasing else stack[:, k]
            made[i] = _cut(dense, parts[i])
    return [m for m in made if m is not None]


def _merged_together(matrices: Sequence[KMatrix]) -> Tensor:
    """(count, n, n) complex; an increasing butterfly is the transpose of a decreasing one."""
    columns = []
    for matrix in matrices:
        b = matrix.butterflies[0]
        columns.append([f.mT for f in b.factors] if b.increasing else b.factors)
    return merge([torch.cat(factors) for factors in zip(*columns, strict=True)], increasing=False)[:, 0]


def _dense(matrix: KMatrix, part: Part) -> Tensor:
    whole = part.rows == range(matrix.n)
    columns = part.columns.stop if part.columns.step == 1 else (len(part.columns) - 1) * part.columns.step + 1
    dense = planar(matrix.to_dense(columns, None if whole else part.rows))
    return dense if part.columns.step == 1 else dense[:, :, :: part.columns.step].contiguous()


def _cut(dense: Tensor, part: Part) -> Tensor:
    rows, columns = part.rows, part.columns
    cut = dense[:, rows.start : rows.stop : rows.step, columns.start : columns.stop : columns.step]
    return cut.contiguous()


def groupings(radices: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """All ways to cut the radices, in order of stride, into `count` groups; each as the number of radices per group."""
    if count == 1:
        return [(len(radices),)]
    return [(first, *rest) for first in range(1, len(radices) - count + 2) for rest in groupings(radices[first:], count - 1)]


def group_sizes(radices: Sequence[int], grouping: Sequence[int]) -> list[int]:
    """The products of the groups' radices, in order of stride."""
    sizes, start = [], 0
    for count in grouping:
        size = 1
        for r in radices[start : start + count]:
            size *= r
        sizes.append(size)
        start += count
    return sizes


def chain_layout(matrix: KMatrix, grouping: Sequence[int], part: Part) -> ChainLayout:
    """How the butterflies' factors, grouped by stride, follow each other: equal neighbours are one stage."""
    digits = tuple(reversed(group_sizes(matrix.radices, grouping)))
    sequence: list[int] = []
    for butterfly in matrix.butterflies:
        mixed = range(len(digits) - 1, -1, -1) if butterfly.increasing else range(len(digits))
        for digit in mixed:
            if not sequence or sequence[-1] != digit:
                sequence.append(digit)
    return ChainLayout(digits, tuple(sequence), (part.rows.step, len(part.rows)), len(part.columns))


def chain_stages(matrix: KMatrix, grouping: Sequence[int], layout: ChainLayout) -> list[Tensor]:
    """The stages' tensors (2, *other digits, r, r)."""
    stages: list[Tensor] = []
    mixed: list[int] = []
    for butterfly in matrix.butterflies:
        factors, start, blocks = butterfly.factors, 0, []
        for count in grouping:
            blocks.append(merge(factors[start : start + count], butterfly.increasing))
            start += count
        ordered = list(enumerate(blocks)) if butterfly.increasing else list(enumerate(blocks))[::-1]
        for position, block in ordered:
            digit = len(grouping) - 1 - position
            others = [d for i, d in enumerate(layout.digits) if i != digit]
            stage = block.reshape(*others, *block.shape[-2:])
            if mixed and mixed[-1] == digit:
                stages[-1] = stage @ stages[-1]
            else:
                stages.append(stage)
                mixed.append(digit)
    return [planar(stage) for stage in stages]
