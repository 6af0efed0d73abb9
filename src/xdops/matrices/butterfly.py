"""One butterfly: a product of sparse factors, factor j mixing r_j entries that are s_j = r_1...r_{j-1} apart.

Factor j views a vector as (n/(r_j s_j), r_j, s_j) and multiplies the middle index by its own r_j x r_j matrix at every
(block, offset). Increasing stride applies factor 1 first, decreasing stride factor q.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.matrices.blocks import merge_factors
from xdops.matrices.pairs import check_floating, to_complex, to_pairs
from xdops.matrices.radices import check_radices, strides_of
from xdops.matrices.structured import StructuredMatrix


class Butterfly(StructuredMatrix):
    """`values` (n * sum(radices), 2): all factors in order of stride, each (blocks, stride, r, r), as real pairs."""

    depth = 1

    def __init__(self, values: Tensor, radices: Sequence[int], increasing: bool) -> None:
        n = 1
        for r in radices:
            n *= r
        check_floating(values.dtype, "butterfly values")
        self.n, self.radices, self.increasing = n, check_radices(n, radices), increasing
        if values.shape != (self.entries(radices), 2):
            raise XDError(
                f"{type(self).__name__} values of shape {tuple(values.shape)} for radices {tuple(radices)}",
                f"shape {(self.entries(radices), 2)}: complex numbers as pairs",
                f"{type(self).__name__}.from_factors",
            )
        self.values = values

    @staticmethod
    def entries(radices: Sequence[int]) -> int:
        """How many complex numbers a butterfly of these radices holds."""
        n = 1
        for r in radices:
            n *= r
        return n * sum(radices)

    @classmethod
    def from_factors(cls, factors: Sequence[Tensor], increasing: bool, dtype: torch.dtype | None = None) -> Self:
        """From complex factors (blocks, stride, r, r) in order of stride."""
        values = _values_of(factors)
        return cls(values if dtype is None else values.to(dtype), [max(f.shape[-2:]) for f in factors], increasing)

    @property
    def factors(self) -> list[Tensor]:
        """Complex views of the factors, in order of stride: (blocks, stride, r, r) each."""
        parts = to_complex(self.values).split([self.n * r for r in self.radices])
        return [
            part.view(self.n // (r * s), s, r, r) for part, r, s in zip(parts, self.radices, strides_of(self.radices), strict=True)
        ]

    @property
    def num_parameters(self) -> int:
        return self.values.numel()

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    def _transpose(self) -> Self:
        return self._with_factors([f.mT for f in self.factors], not self.increasing)

    def _with_factors(self, factors: Sequence[Tensor], increasing: bool) -> Self:
        """Other factors of the same radices, whose shapes need not be looked at: a tracer takes these for numbers that vary."""
        return type(self)(_values_of(factors).to(self.dtype), self.radices, increasing)

    def _conj(self) -> Self:
        sign = torch.tensor([1, -1], dtype=self.values.dtype, device=self.values.device)
        return type(self)(self.values * sign, self.radices, self.increasing)

    def to(self, dtype: torch.dtype) -> Self:
        """The same matrix with its pairs in another real dtype."""
        return type(self)(self.values.to(dtype), self.radices, self.increasing)

    def scale_rows(self, diagonal: Tensor) -> Self:
        """diag(d) B: into the factor applied last."""
        factors = self.factors
        j = len(factors) - 1 if self.increasing else 0
        blocks, stride, r, _ = factors[j].shape
        factors[j] = factors[j] * diagonal.reshape(blocks, r, stride).transpose(1, 2)[..., None]
        return self._with_factors(factors, self.increasing)

    def _dense(self, columns: int, rows: Tensor | None) -> Tensor:
        if rows is not None and 0 < len(rows) < columns:  # fewer rows than columns: build from the transposed side
            prefix = int(rows.max()) + 1
            transposed = [f.mT for f in self.factors]
            return merge_factors(transposed, not self.increasing, prefix)[0, 0].mT[rows, :columns]
        dense = merge_factors(self.factors, self.increasing, columns)[0, 0]
        return dense if rows is None else dense[rows]

    def times(self, x: Tensor) -> Tensor:
        """B x for a complex matrix x (n, columns), with the factors merged into two groups: two batched products."""
        factors, cut = self.factors, balanced_cut(self.radices)
        low = merge_factors(factors[:cut], self.increasing)[:, 0].to(x.dtype)  # (a, b, b): contiguous blocks
        columns = x.shape[1]
        if cut == len(factors):
            return (low @ x.reshape(1, self.n, columns)).view(self.n, columns)
        high = merge_factors(factors[cut:], self.increasing)[0].to(x.dtype)  # (b, a, a): entries b apart
        b, a = high.shape[:2]
        x = x.reshape(a, b, columns)
        if self.increasing:
            y = (high @ (low @ x).transpose(0, 1)).transpose(0, 1)
        else:
            y = low @ (high @ x.transpose(0, 1)).transpose(0, 1)
        return y.reshape(self.n, columns)

    def _grouped(self, x: Tensor, rows: Tensor | None) -> Tensor:
        return apply_grouped([self], x, rows)

    def _staged(self, x: Tensor, rows: Tensor | None) -> Tensor:
        dtype = torch.promote_types(to_complex(self.values[:1]).dtype, x.dtype)
        wanted = None if rows is None else tuple(rows.tolist())
        groups = active_groups(self.radices, self.increasing, x.shape[-1], wanted)
        x = torch.nn.functional.pad(x.to(dtype), (0, self.n - x.shape[-1]))
        pairs = list(zip(self.factors, groups, strict=True))
        for factor, group in pairs if self.increasing else reversed(pairs):
            x = _apply_factor(factor.to(dtype), x, group)
        return x if rows is None else x[..., rows]


def _values_of(factors: Sequence[Tensor]) -> Tensor:
    return torch.cat([to_pairs(factor).reshape(-1, 2) for factor in factors])


def apply_grouped(butterflies: Sequence[Butterfly], x: Tensor, rows: Tensor | None) -> Tensor:
    """The product of butterflies, the first applied first, along the last dimension of x (..., m)."""
    n, lead = butterflies[0].shape[1], x.shape[:-1]
    dtype = torch.promote_types(to_complex(butterflies[0].values[:1]).dtype, x.dtype)
    y = torch.nn.functional.pad(x.to(dtype), (0, n - x.shape[-1])).reshape(-1, n).mT
    for b in butterflies:
        y = b.times(y)
    return (y if rows is None else y[rows]).mT.reshape(*lead, -1)


def balanced_cut(radices: Sequence[int]) -> int:
    """How many radices, in order of stride, make a first group that is about as large as the second."""
    n = 1
    for r in radices:
        n *= r
    low, best = 1, (float("inf"), len(radices))
    for count, r in enumerate(radices, start=1):
        low *= r
        best = min(best, (float(low + n // low), count))
    return best[1]


def _apply_factor(factor: Tensor, x: Tensor, groups: Sequence[int] | None) -> Tensor:
    """y[b,i,o] = sum_l T[b,o,i,l] x[b,l,o], at all (block, offset) or only at the given ones, zero elsewhere."""
    blocks, stride, r, _ = factor.shape
    shaped = x.unflatten(-1, (blocks, r, stride)).transpose(-1, -2)  # (..., b, o, l)
    if groups is None:
        y = torch.einsum("boil,...bol->...boi", factor, shaped)
    else:
        index = torch.tensor(groups, dtype=torch.long, device=x.device)
        part = torch.einsum("gil,...gl->...gi", factor.flatten(0, 1)[index], shaped.flatten(-3, -2)[..., index, :])
        y = part.new_zeros(*x.shape[:-1], blocks * stride, r).index_copy(-2, index, part)
        y = y.unflatten(-2, (blocks, stride))
    return y.transpose(-1, -2).flatten(-3)


@lru_cache(maxsize=64)
def active_groups(
    radices: tuple[int, ...], increasing: bool, columns: int, rows: tuple[int, ...] | None
) -> tuple[tuple[int, ...] | None, ...]:
    """Per factor, the (block, offset) groups that both the first `columns` inputs and the wanted rows can reach; None is all.

    As numbers, not tensors: what is kept must not depend on where it was asked for, in inference mode, say.
    """
    n, count = 1, len(radices)
    for r in radices:
        n *= r
    if columns == n and rows is None:
        return (None,) * count
    order = range(count) if increasing else range(count - 1, -1, -1)
    strides = strides_of(radices)

    def groups_of(positions: set[int], j: int) -> set[int]:
        """The groups of factor j that hold these positions."""
        r, s = radices[j], strides[j]
        return {p // (r * s) * s + p % s for p in positions}

    def positions_of(groups: set[int], j: int) -> set[int]:
        """All positions of these groups."""
        r, s = radices[j], strides[j]
        return {(g // s * r + digit) * s + g % s for g in groups for digit in range(r)}

    reached, needed = set(range(columns)), set(range(n) if rows is None else rows)
    forward, backward = {}, {}
    for j in order:
        forward[j] = groups_of(reached, j)
        reached = positions_of(forward[j], j)
    for j in reversed(order):
        backward[j] = groups_of(needed, j)
        needed = positions_of(backward[j], j)
    both = [forward[j] & backward[j] for j in range(count)]
    return tuple(None if len(groups) == n // r else tuple(sorted(groups)) for groups, r in zip(both, radices, strict=True))
