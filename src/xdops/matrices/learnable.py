"""A K-matrix whose numbers are parameters."""

import torch
from torch import Tensor, nn

from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix


class LearnableKMatrix(nn.Module):
    """Holds the butterflies' values, one (n * sum(radices), 2) parameter each; `matrix` is the K-matrix they are now."""

    def __init__(self, matrix: KMatrix, trained: bool = True) -> None:
        super().__init__()
        self.layout = tuple((b.radices, b.increasing) for b in matrix.butterflies)
        self.values = nn.ParameterList(nn.Parameter(b.values.detach().clone(), requires_grad=trained) for b in matrix.butterflies)

    @property
    def matrix(self) -> KMatrix:
        return KMatrix([Butterfly(v, radices, inc) for v, (radices, inc) in zip(self.values, self.layout, strict=True)])

    @property
    def n(self) -> int:
        return int(torch.tensor(self.layout[0][0]).prod())

    def forward(self, x: Tensor, dim: int = -1) -> Tensor:
        return self.matrix.apply(x, dim)

    def extra_repr(self) -> str:
        directions = "".join("+" if increasing else "-" for _, increasing in self.layout)
        return f"n={self.n}, depth={len(self.layout)}, directions={directions}, radices={self.layout[-1][0]}"
