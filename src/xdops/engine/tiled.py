"""Dense matrices that compiled kernels multiply with, in the cache, a tile of outputs at a time.

`8 r m` flops per column, whatever the depth was, and half of that where one side is real. No
factor's input is remembered: there is only one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from xdops.engine.fused import Fused
from xdops.engine.geometry import Part
from xdops.engine.kernels.applying import DenseShape, Shape
from xdops.engine.workspace import Workspace


@dataclass(frozen=True)
class TiledLayout:
    """A matrix (2, rows, columns), planar, of whose sides one is the domain's."""

    shape: tuple[int, int]
    points: int
    count = 1

    @cached_property
    def part(self) -> Part:
        return Part(range(self.shape[0]), range(self.shape[1]))

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        return (DenseShape(*self.shape),)

    def transform(self, values: Sequence[Tensor], space: Workspace, wants_grad: bool) -> Fused:
        return Tiled(self, values[0], space, wants_grad)

    def dense(self, values: Sequence[Tensor]) -> Tensor:
        return values[0]


class Tiled(Fused):
    """A `Transform`; see there."""

    def __init__(self, layout: TiledLayout, A: Tensor, space: Workspace, wants_grad: bool) -> None:
        super().__init__(layout, [A.movedim(0, -1)], space, wants_grad)

    def _parts(self, collected: Tensor, values: Sequence[Tensor]) -> list[Tensor | None]:
        rows, columns = self.layout.shape
        return [collected.view(2, rows, -1)[:, :, :columns]]
