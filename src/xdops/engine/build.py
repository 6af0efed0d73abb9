"""From K-matrices to the planar tensors that the fast forms multiply with: dense matrices, or the stages of a chain."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from xdops.engine import kernels
from xdops.engine.chains import ChainLayout
from xdops.engine.fused import fused_matrices
from xdops.engine.geometry import Part
from xdops.engine.merging import merge_stack
from xdops.engine.planar import matmul, multiply, planar
from xdops.matrices import Butterfly, HalfButterfly, KMatrix
from xdops.matrices.blocks import merge_factors
from xdops.matrices.radices import strides_of

#: Up to this size all matrices of one size are merged together, whole: fewer calls, though some columns go unused. Those of depth 1
#: are up to the second size.
MERGED_TOGETHER, MERGED_TOGETHER_ALONE = 64, 300

#: Above this size, a matrix of which only few columns are in use is merged by itself, those columns alone.
FEW = 200


def dense_matrices(matrices: Sequence[KMatrix], parts: Sequence[Part]) -> list[Tensor]:
    """(2, rows, columns) each. By kernels, where there are some; else matrices of one size, depth and radices are merged, and their
    butterflies multiplied, in one go."""
    values = [matrix.butterflies[0].values for matrix in matrices]
    if values and all(kernels.can_run(v.dtype, v.device.type) for v in values):
        return fused_matrices(matrices, parts)
    made: list[Tensor | None] = [None] * len(matrices)
    alike: dict[tuple[int, tuple[int, ...], bool], list[int]] = {}
    for i, matrix in enumerate(matrices):
        radices = {b.radices for b in matrix.butterflies}
        few = matrix.n > FEW and 4 * len(parts[i].columns) <= matrix.n  # cheap by itself
        if matrix.n <= (MERGED_TOGETHER_ALONE if matrix.depth == 1 else MERGED_TOGETHER) and len(radices) == 1 and not few:
            alike.setdefault((matrix.depth, matrix.radices, is_half(matrix)), []).append(i)
        else:
            made[i] = _dense(matrix, parts[i])
    for indices in alike.values():
        stack = _merged_together([matrices[i] for i in indices])
        for dense, i in zip(stack, indices, strict=True):
            made[i] = _cut(dense, parts[i])
    return [m for m in made if m is not None]


def is_half(matrix: KMatrix) -> bool:
    """Whether it is half the rows or columns of a K-matrix."""
    return matrix.shape[0] != matrix.shape[1]


def some_columns(matrix: KMatrix, columns: Tensor) -> Tensor:
    """(2, n, count): these columns alone, as what the matrix makes of unit vectors."""
    units = torch.zeros(len(columns), matrix.shape[1], dtype=matrix.dtype, device=columns.device)
    return planar(matrix.apply(units.scatter(1, columns[:, None], 1.0)).mT)


def kronecker(matrices: Sequence[Tensor]) -> Tensor:
    """A_1 (x) A_2 (x) ... of planar matrices, multiplied out to one (2, rows, columns)."""
    product = matrices[0]
    for A in matrices[1:]:
        product = multiply(product[:, :, None, :, None], A[:, None, :, None, :]).flatten(3).flatten(1, 2)
    return product


def _merged_together(matrices: Sequence[KMatrix]) -> list[Tensor]:
    """(2, rows, columns) each. An increasing butterfly is the transpose of a decreasing one, so one merging serves all; so is half
    the columns that of half the rows."""
    count, depth = len(matrices), matrices[0].depth
    tall = [matrix.shape[0] > matrix.shape[1] for matrix in matrices]
    rows = [matrix.butterflies[::-1] if t else matrix.butterflies for matrix, t in zip(matrices, tall, strict=True)]
    butterflies = [b for layer in zip(*rows, strict=True) for b in layer]
    whole = len(butterflies) - (count if is_half(matrices[0]) else 0)  # halves come last
    merged: list[Tensor] = []
    for part in (butterflies[:whole], butterflies[whole:]):
        merged += merge_stack(_stacked_factors(part)).unbind(1) if part else ()
    turned = [
        dense.mT if b.increasing != tall[i % count] else dense for i, (dense, b) in enumerate(zip(merged, butterflies, strict=True))
    ]
    if depth == 1:
        return [dense.mT if t else dense for dense, t in zip(turned, tall, strict=True)]
    layers = [torch.stack(turned[d * count : (d + 1) * count], dim=1) for d in range(depth)]
    product = layers[0]
    for layer in layers[1:]:
        product = matmul(layer, product)
    return [dense.mT if t else dense for dense, t in zip(product.unbind(1), tall, strict=True)]


def _stacked_factors(butterflies: Sequence[Butterfly]) -> list[Tensor]:
    """(2, count, blocks, stride, r, r) per factor, transposed where a butterfly is increasing; last, of halves, their folds."""
    first, share = butterflies[0], 2 if isinstance(butterflies[0], HalfButterfly) else 1
    values = torch.stack([b.values for b in butterflies]).movedim(-1, 0)  # (2, count, entries)
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    increasing = [i for i, b in enumerate(butterflies) if b.increasing]
    factors = []
    for part, r, s in zip(
        values.split([first.n * r // share for r in first.radices], dim=2), first.radices, strides_of(first.radices), strict=True
    ):
        if first.n < share * r * s:  # a fold, which is its own transpose in memory
            factors.append(part.unflatten(2, (1, s, 1, r)))
            continue
        factor = part.unflatten(2, (first.n // (share * r * s), s, r, r))
        if increasing:
            rows = [f.mT if i in increasing else f for i, f in enumerate(factor.unbind(1))]
            factor = torch.stack(rows, dim=1)
        factors.append(factor)
    return factors


def _dense(matrix: KMatrix, part: Part) -> Tensor:
    whole = part.rows == range(matrix.shape[0])
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
        sizes.append(math.prod(radices[start : start + count]))
        start += count
    return sizes


def group_blocks(butterfly: Butterfly, grouping: Sequence[int]) -> list[Tensor]:
    """One merged (blocks, stride, r, r) per group, in order of stride. Half a butterfly's last one has the fold in it: of its R x R
    blocks the first R/2 rows, if it is decreasing, or columns."""
    if not isinstance(butterfly, HalfButterfly):
        return _merged_groups(butterfly, grouping)
    *others, last = grouping
    blocks = _merged_groups(butterfly.inner, (*others, last - 1))
    high = blocks.pop()[0] if last > 1 else torch.ones_like(butterfly.fold[:, :1, None])  # (stride, R/2, R/2)
    fold = butterfly.fold.view(high.shape[1], -1, 2).permute(1, 2, 0)  # (stride, 2, R/2)
    if butterfly.increasing:
        return [*blocks, (fold[..., None] * high[:, None]).flatten(1, 2)[None]]
    return [*blocks, (high[:, :, None] * fold[:, None]).flatten(2)[None]]


def _merged_groups(butterfly: Butterfly, grouping: Sequence[int]) -> list[Tensor]:
    ends = list(accumulate(grouping))
    parts = [butterfly.factors[start:end] for start, end in pairwise((0, *ends)) if end > start]
    return [merge_factors(part, butterfly.increasing) for part in parts]


def two_stages(butterfly: Butterfly, grouping: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Merged into blocks for two digits: (D, H, H) that mix the high digit, (H, D, D) the low; of half a butterfly, half of H."""
    low, high = group_blocks(butterfly, grouping)
    return high[0], low[:, 0]


def chain_layout(matrix: KMatrix, grouping: Sequence[int], part: Part) -> ChainLayout:
    """How the butterflies' factors, grouped by stride, follow each other: equal neighbours are one stage."""
    highest, *others = reversed(group_sizes(matrix.radices, grouping))
    out, into = ((highest * size // matrix.n, *others) for size in matrix.shape)
    sequence: list[int] = []
    for butterfly in matrix.butterflies:
        mixed = range(len(grouping) - 1, -1, -1) if butterfly.increasing else range(len(grouping))
        for digit in mixed:
            if not sequence or sequence[-1] != digit:
                sequence.append(digit)
    return ChainLayout(into, out, tuple(sequence), (part.rows.step, len(part.rows)), len(part.columns))


def chain_stages(matrix: KMatrix, grouping: Sequence[int], layout: ChainLayout) -> list[Tensor]:
    """The stages' tensors (2, *other digits, r, r)."""
    stages: list[Tensor] = []
    mixed: list[int] = []
    for butterfly in matrix.butterflies:
        digits = min(layout.digits, layout.out) if isinstance(butterfly, HalfButterfly) else max(layout.digits, layout.out)
        blocks = list(enumerate(group_blocks(butterfly, grouping)))
        for position, block in blocks if butterfly.increasing else blocks[::-1]:
            digit = len(grouping) - 1 - position
            others = [d for i, d in enumerate(digits) if i != digit]
            stage = block.reshape(*others, *block.shape[-2:])
            if mixed and mixed[-1] == digit:
                stages[-1] = stage @ stages[-1]
            else:
                stages.append(stage)
                mixed.append(digit)
    return [planar(stage) for stage in stages]
