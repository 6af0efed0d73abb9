"""Half a butterfly: the first n/2 rows of a decreasing one, or the first n/2 columns of an increasing one.

If the largest stride n/2 has radix 2, a decreasing butterfly begins with y[i, o] = T[o, i, 0] x[o] + T[o, i, 1] x[o + n/2], and
what follows never mixes i = 0 with i = 1. Its first n/2 rows are therefore a fold, y[o] = T[o, 0, 0] x[o] + T[o, 0, 1] x[o + n/2],
and a butterfly of n/2 points with the other radices: half the numbers, half the work. The first n/2 columns of an increasing
butterfly are the transpose: a butterfly of n/2 points, then y[o + i n/2] = T[o, i] x[o].
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from xdops.matrices.butterfly import Butterfly
from xdops.matrices.pairs import to_complex
from xdops.matrices.radices import check_half_radices


class HalfButterfly(Butterfly):
    """(n/2, n) if decreasing, (n, n/2) if increasing; `radices` are those of the whole butterfly, the last one 2.

    `values` (n * sum(radices) / 2, 2): the butterfly of n/2 points as `Butterfly` has it, then the fold (n/2, 2), as real pairs.
    """

    @staticmethod
    def entries(radices: Sequence[int]) -> int:
        """How many complex numbers half a butterfly of these radices holds."""
        return Butterfly.entries(check_half_radices(radices)) // 2

    @classmethod
    def of(cls, whole: Butterfly) -> Self:
        """The first n/2 rows of a decreasing butterfly, the first n/2 columns of an increasing one."""
        check_half_radices(whole.radices)
        *others, last = whole.factors
        fold = last[..., :1] if whole.increasing else last[..., :1, :]
        return cls.from_factors([*(f[: len(f) // 2] for f in others), fold], whole.increasing, whole.dtype)

    @property
    def inner(self) -> Butterfly:
        """The butterfly of n/2 points."""
        return Butterfly(self.values[: -self.n], self.radices[:-1], self.increasing)

    @property
    def fold(self) -> Tensor:
        """T[o, i] (n/2, 2), complex: what position o + i n/2 adds to point o, or takes from it."""
        return to_complex(self.values[-self.n :]).view(self.n // 2, 2)

    @property
    def factors(self) -> list[Tensor]:
        """Complex views of the factors, in order of stride; the last one is the fold, (1, n/2, 1, 2) or (1, n/2, 2, 1)."""
        return [*self.inner.factors, self.fold.view(1, -1, *((2, 1) if self.increasing else (1, 2)))]

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.n // 2) if self.increasing else (self.n // 2, self.n)

    def _dense(self, columns: int, rows: Tensor | None) -> Tensor:
        half = self.n // 2
        if self.increasing:
            return self._unfolded(self.inner._dense(columns, None).mT, rows).mT.contiguous()
        dense = self.inner._dense(min(columns, half), rows)
        parts = [dense * self.fold[: dense.shape[1], 0]]
        if columns > half:
            parts.append(dense[:, : columns - half] * self.fold[: columns - half, 1])
        return torch.cat(parts, dim=1)

    def times(self, x: Tensor) -> Tensor:
        """B x for a complex matrix x (n, columns) or (n/2, columns), in batched products."""
        if self.increasing:
            return self._unfolded(self.inner.times(x).mT, None).mT.contiguous()
        return self.inner.times(self._folded(x.mT).mT)

    def _staged(self, x: Tensor, rows: Tensor | None) -> Tensor:
        x = x.to(torch.promote_types(self.fold.dtype, x.dtype))
        if self.increasing:
            return self._unfolded(self.inner._staged(x, None), rows)
        return self.inner._staged(self._folded(x), rows)

    def _folded(self, x: Tensor) -> Tensor:
        """(..., m) -> (..., at most n/2): both halves of the input, weighted, on top of each other."""
        half, fold = self.n // 2, self.fold.to(x.dtype)
        low, high = x[..., :half], x[..., half:]
        y = low * fold[: low.shape[-1], 0]
        if high.shape[-1] == 0:
            return y
        return y + torch.nn.functional.pad(high * fold[: high.shape[-1], 1], (0, half - high.shape[-1]))

    def _unfolded(self, x: Tensor, rows: Tensor | None) -> Tensor:
        """(..., n/2) -> (..., n) or the given ones: every point, weighted, at its two positions."""
        fold = self.fold.to(x.dtype)
        if rows is None:
            return (x[..., None, :] * fold.mT).flatten(-2)
        point = rows % (self.n // 2)
        return x[..., point] * fold[point, rows // (self.n // 2)]
