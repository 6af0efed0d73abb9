"""Where a point of the grid is, as channels beside the data: from 0 to 1 along every dimension."""

import torch
from torch import Tensor, nn


def with_coordinates(x: Tensor) -> Tensor:
    """x (batch, c, *grid) -> (batch, c + dims, *grid)."""
    grid = x.shape[2:]
    lines = [torch.linspace(0, 1, n, dtype=x.dtype, device=x.device) for n in grid]
    return torch.cat((x, *(c.expand(x.shape[0], 1, *grid) for c in torch.meshgrid(*lines, indexing="ij"))), dim=1)


class SeesCoordinates(nn.Module):
    """A network for (batch, c + dims, *grid) that is given (batch, c, *grid)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.network(with_coordinates(x))
        return y
