"""K-matrices: products of butterflies of alternating direction. Their number is the depth."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from xdops.arguments import shown
from xdops.errors import XDError
from xdops.matrices.butterfly import Butterfly, apply_grouped
from xdops.matrices.half import HalfButterfly
from xdops.matrices.structured import StructuredMatrix


class KMatrix(StructuredMatrix):
    """B_d ... B_2 B_1. `butterflies` are listed in the order they are applied: the first touches the input.

    A product of two K-matrices keeps every butterfly as it is, so that depths add; directions alternate within each operand.
    With half a butterfly at an end it is the first n/2 rows or columns of a K-matrix (`half_rows`, `half_columns`).
    """

    def __init__(self, butterflies: Sequence[Butterfly]) -> None:
        try:
            sizes = {b.n for b in butterflies}
        except (TypeError, AttributeError) as error:
            raise XDError(f"butterflies={shown(butterflies)}", "a sequence of Butterfly", "xdops.matrices.identity(n)") from error
        if len(sizes) != 1:
            raise XDError(f"butterflies of sizes {sorted(sizes)}", "at least one, all of one size", "xdops.matrices.identity(n)")
        shapes = [b.shape for b in butterflies]
        if any(after[1] != before[0] for before, after in pairwise(shapes)):
            raise XDError(f"butterflies of shapes {shapes}", "as many columns as the one before has rows", "half_rows(matrix)")
        self.butterflies = tuple(butterflies)
        self.n = self.butterflies[0].n
        self.depth = len(self.butterflies)

    @property
    def shape(self) -> tuple[int, int]:
        return self.butterflies[-1].shape[0], self.butterflies[0].shape[1]

    @property
    def num_parameters(self) -> int:
        return sum(b.num_parameters for b in self.butterflies)

    @property
    def dtype(self) -> torch.dtype:
        return self.butterflies[0].dtype

    @property
    def radices(self) -> tuple[int, ...]:
        """The radices of the butterfly applied last."""
        return self.butterflies[-1].radices

    def half_rows(self) -> "KMatrix":
        """The first n/2 rows: the last butterfly, decreasing and of radix 2 at its largest stride, keeps half its numbers."""
        *others, last = self.butterflies
        if last.increasing or isinstance(last, HalfButterfly):
            raise XDError(
                f"a K-matrix that ends with {'half a' if isinstance(last, HalfButterfly) else 'an increasing'} butterfly",
                "a whole decreasing butterfly at its end",
                "dft(n, order='reversed')",
            )
        return KMatrix([*others, HalfButterfly.of(last)])

    def half_columns(self) -> "KMatrix":
        """The first n/2 columns, likewise: the transpose of the transpose's first rows."""
        return self.transpose().half_rows().transpose()

    def _transpose(self) -> "KMatrix":
        return KMatrix([b.transpose() for b in reversed(self.butterflies)])

    def _conj(self) -> "KMatrix":
        return KMatrix([b.conj() for b in self.butterflies])

    def _staged(self, x: Tensor, rows: Tensor | None) -> Tensor:
        for b in self.butterflies[:-1]:
            x = b._staged(x, None)
        return self.butterflies[-1]._staged(x, rows)

    def _grouped(self, x: Tensor, rows: Tensor | None) -> Tensor:
        return apply_grouped(self.butterflies, x, rows)

    def _dense(self, columns: int, rows: Tensor | None) -> Tensor:
        """The first butterfly merged, the others applied to its columns."""
        if self.depth == 1:
            return self.butterflies[0]._dense(columns, rows)
        dense = self.butterflies[0]._dense(columns, None)
        for b in self.butterflies[1:]:
            dense = b.times(dense)
        return dense if rows is None else dense[rows]

    def __matmul__(self, other: "KMatrix") -> "KMatrix":
        """The product self @ other, which applies `other` first; depths add."""
        if not isinstance(other, KMatrix):
            return NotImplemented
        if other.n != self.n:
            raise XDError(f"K-matrices of sizes {self.n} and {other.n}", "equal sizes", "make both the larger size")
        return KMatrix((*other.butterflies, *self.butterflies))

    def scale_rows(self, diagonal: Tensor) -> "KMatrix":
        """diag(d) K, at the same depth."""
        if diagonal.shape != self.shape[:1]:
            raise XDError(f"a diagonal of shape {tuple(diagonal.shape)}", f"shape {self.shape[:1]}", "one entry per row")
        return KMatrix((*self.butterflies[:-1], self.butterflies[-1].scale_rows(diagonal)))

    def scale_columns(self, diagonal: Tensor) -> "KMatrix":
        """K diag(d), at the same depth."""
        return self.transpose().scale_rows(diagonal).transpose()

    def to(self, dtype: torch.dtype) -> "KMatrix":
        """The same matrix with its pairs in another real dtype."""
        return KMatrix([b.to(dtype) for b in self.butterflies])
