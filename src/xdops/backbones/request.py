"""What a backbone is asked for: the one argument of every function that builds one."""

from dataclasses import dataclass
from typing import Literal

TaskKind = Literal["classification", "regression", "dense", "next-step", "sequence-class"]


@dataclass(frozen=True)
class Request:
    """Inputs are (batch, in_channels, *spatial). Outputs are (batch, outputs), or (batch, outputs, *spatial) if kind is "dense".

    "next-step" and "sequence-class" are sequences of different lengths, of which `spatial` is the longest: outputs are (batch,
    outputs, steps), and those at a step may depend on inputs up to it alone.
    """

    kind: TaskKind
    in_channels: int
    outputs: int  # classes, regression targets, or channels of the predicted grid
    spatial: tuple[int, ...]  # the grid: (length,), (height, width) or (depth, height, width)

    @property
    def ragged(self) -> bool:
        """Whether inputs have different lengths, and networks must be causal."""
        return self.kind in ("next-step", "sequence-class")

    @property
    def dims(self) -> int:
        return len(self.spatial)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.in_channels, *self.spatial)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.outputs, *self.spatial) if self.kind == "dense" or self.ragged else (self.outputs,)
