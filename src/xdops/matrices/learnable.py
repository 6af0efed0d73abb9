"""A K-matrix whose numbers are parameters."""

import math

from torch import Tensor, nn

from xdops.matrices.half import HalfButterfly
from xdops.matrices.kmatrix import KMatrix


class LearnableKMatrix(nn.Module):
    """Holds the butterflies' values, one (n * sum(radices), 2) parameter each, or half of that; `matrix` is what they are now."""

    def __init__(self, matrix: KMatrix, trained: bool = True) -> None:
        super().__init__()
        self.layout = tuple((b.radices, b.increasing) for b in matrix.butterflies)
        self.kinds = tuple(type(b) for b in matrix.butterflies)  # whole or half
        self.values = nn.ParameterList(nn.Parameter(b.values.detach().clone(), requires_grad=trained) for b in matrix.butterflies)

    @property
    def matrix(self) -> KMatrix:
        parts = zip(self.kinds, self.values, self.layout, strict=True)
        return KMatrix([kind(values, radices, increasing) for kind, values, (radices, increasing) in parts])

    @property
    def n(self) -> int:
        return math.prod(self.layout[0][0])

    def forward(self, x: Tensor, dim: int = -1) -> Tensor:
        return self.matrix.apply(x, dim)

    def extra_repr(self) -> str:
        directions = "".join("+" if increasing else "-" for _, increasing in self.layout)
        half = ", half" if HalfButterfly in self.kinds else ""
        return f"n={self.n}{half}, depth={len(self.layout)}, directions={directions}, radices={self.layout[-1][0]}"
