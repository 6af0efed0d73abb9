"""A K-matrix whose numbers are parameters."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from xdops.matrices.butterfly import Butterfly
from xdops.matrices.half import HalfButterfly
from xdops.matrices.kmatrix import KMatrix

#: Of one butterfly: its radices, whether its stride increases, whether it is half of one.
ButterflyLayout = tuple[tuple[int, ...], bool, bool]


def assemble(layout: Sequence[ButterflyLayout], values: Sequence[Tensor]) -> KMatrix:
    """The K-matrix of these values, one layout and one tensor per butterfly, in the order they are applied."""
    return KMatrix(
        [
            HalfButterfly(v, radices, increasing) if half else Butterfly(v, radices, increasing)
            for v, (radices, increasing, half) in zip(values, layout, strict=True)
        ]
    )


def read(module: nn.Module, name: str) -> Any:
    """What `getattr` finds, without the detours of `nn.Module` for its own parameters: small layers would feel them."""
    own = module._parameters
    return own[name] if name in own else getattr(module, name)


class LearnableKMatrix(nn.Module):
    """Holds the butterflies' values, one (n * sum(radices), 2) parameter each, or half of that; `matrix` is what they are now."""

    def __init__(self, matrix: KMatrix, trained: bool = True) -> None:
        super().__init__()
        self.layout: tuple[ButterflyLayout, ...] = tuple(
            (b.radices, b.increasing, isinstance(b, HalfButterfly)) for b in matrix.butterflies
        )
        self.values = nn.ParameterList(nn.Parameter(b.values.detach().clone(), requires_grad=trained) for b in matrix.butterflies)

    def tensors(self) -> list[Tensor]:
        """The values as they are now; an nn.ParameterList takes longer to go through than a small matrix to be multiplied."""
        values: Any = self._modules["values"]
        return [read(values, str(i)) for i in range(len(self.layout))]

    @property
    def matrix(self) -> KMatrix:
        return assemble(self.layout, list(self.values))

    @property
    def n(self) -> int:
        return math.prod(self.layout[0][0])

    @property
    def points(self) -> int:
        """Of the domain: n, or n/2."""
        return self.n // 2 if any(half for *_, half in self.layout) else self.n

    def forward(self, x: Tensor, dim: int = -1) -> Tensor:
        return self.matrix.apply(x, dim)

    def extra_repr(self) -> str:
        directions = "".join("+" if increasing else "-" for _, increasing, _ in self.layout)
        half = ", half" if any(half for *_, half in self.layout) else ""
        return f"n={self.n}{half}, depth={len(self.layout)}, directions={directions}, radices={self.layout[-1][0]}"
