"""What a backbone is asked for: the one argument of every function that builds one."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["classification", "regression", "dense"]


@dataclass(frozen=True)
class Request:
    """Inputs are (batch, in_channels, *spatial). Outputs are (batch, outputs), or (batch, outputs, *spatial) if kind is "dense"."""

    kind: Kind
    in_channels: int
    outputs: int  # classes, regression targets, or channels of the predicted grid
    spatial: tuple[int, ...]  # the grid: (length,), (height, width) or (depth, height, width)

    @property
    def dims(self) -> int:
        return len(self.spatial)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.in_channels, *self.spatial)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.outputs, *self.spatial) if self.kind == "dense" else (self.outputs,)
