"""An operation that has learned, on another grid: an operator between functions, of which a grid holds the values.

An operation A made for m points takes samples of a function to samples of a function. On a grid of m' points it is

    A' = I A R

where R reads the function at the old points and I interpolates the outputs to the new ones. Both are interpolation: of periodic
functions by the trigonometric polynomial through the points (band-limited), between walls by straight lines. Where the old points
are among the new ones, R picks them out and I leaves them alone. Everything else in networks that map functions to functions acts
point by point (1x1 convolutions, norms, activations), so that at the old points the network on the finer grid says exactly what
it has learned to say, and in between what the interpolated operators say: zero-shot super-resolution.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def periodic_interpolation(points: int, others: int) -> Tensor:
    """(others, points): the trigonometric polynomial through `points` values at t / points, read at t / others; float64.

    Frequencies -points/2 < f < points/2, and the cosine alone of points/2: the real polynomial of least frequency.
    """
    where = torch.arange(others, dtype=torch.float64)[:, None] / others - torch.arange(points, dtype=torch.float64) / points
    matrix = torch.ones(others, points, dtype=torch.float64)
    for f in range(1, (points - 1) // 2 + 1):
        matrix += 2 * torch.cos(2 * torch.pi * f * where)
    if points % 2 == 0:
        matrix += torch.cos(torch.pi * points * where)
    return matrix / points


def linear_interpolation(points: int, others: int) -> Tensor:
    """(others, points): straight lines through the values, read at the other points; float64.

    Where the steps of one grid divide those of the other, as for 21 and 41 points, both ends are points of both. Other grids, as
    those of images, are cells, whose values stand in their middles.
    """
    few, many = sorted((points, others))
    if few > 1 and (many - 1) % (few - 1) == 0:
        where = torch.arange(others, dtype=torch.float64) * (points - 1) / max(1, others - 1)
    else:
        where = ((torch.arange(others, dtype=torch.float64) + 0.5) * points / others - 0.5).clamp(0, points - 1)
    return (1 - (where[:, None] - torch.arange(points, dtype=torch.float64)).abs()).clamp(min=0)


class ResampledOperation(nn.Module):
    """I A R for an operation A, or whatever stands in its place: inputs of the new sizes in, outputs of the new sizes out."""

    def __init__(
        self,
        operation: nn.Module,
        old: tuple[Sequence[int], Sequence[int]],
        new: tuple[Sequence[int], Sequence[int]],
        periodic: bool,
    ) -> None:
        """old, new: sizes of the inputs and of the outputs."""
        super().__init__()
        self.operation = operation
        self.inputs, self.outputs = tuple(new[0]), tuple(new[1])
        between = periodic_interpolation if periodic else linear_interpolation
        like = next(operation.parameters())
        for i, (inputs, outputs) in enumerate(zip(zip(new[0], old[0], strict=True), zip(old[1], new[1], strict=True), strict=True)):
            self.register_buffer(f"read_{i}", between(*inputs).to(like))
            self.register_buffer(f"write_{i}", between(*outputs).to(like))

    def forward(self, input: Tensor) -> Tensor:
        return self._along("write", self.operation(self._along("read", input)))

    def _along(self, name: str, x: Tensor) -> Tensor:
        """One matrix along each dimension."""
        for i in range(len(self.inputs)):
            matrix: Tensor = getattr(self, f"{name}_{i}")
            x = (x.movedim(2 + i, -1) @ matrix.mT).movedim(-1, 2 + i)
        return x

    def extra_repr(self) -> str:
        return f"for {self.inputs} points"
