"""A small U-Net for a grid in, a grid of the same sizes out: what the coarse grids know joins what the fine ones see.

Per level two [3-wide convolution with zero padding, batch norm, ReLU]; the grid is halved by a strided convolution while every side
stays at least 4 points long, and doubled again by a transposed one, cut to the finer grid where that is odd.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from xdops.backbones.layers import CONV, CONV_TRANSPOSED, NORM
from xdops.backbones.request import Request
from xdops.errors import XDError

#: Channels on the finest grid, by number of dimensions; twice as many on every coarser one.
WIDTH = {1: 32, 2: 16, 3: 8}
LEVELS = 4
LEAST_SIDE = 4


class TwoConvolutions(nn.Sequential):
    def __init__(self, dims: int, c_in: int, c_out: int) -> None:
        super().__init__(
            CONV[dims](c_in, c_out, 3, padding=1, bias=False), NORM[dims](c_out), nn.ReLU(),
            CONV[dims](c_out, c_out, 3, padding=1, bias=False), NORM[dims](c_out), nn.ReLU(),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, request: Request, width: int | None = None) -> None:
        super().__init__()
        dims, side = request.dims, min(request.spatial)
        if request.kind != "dense":
            raise XDError(f"a U-Net for {request.kind}", "a grid to predict (dense)", "--backbone residual")
        if side < 3:
            raise XDError(
                f"a grid of {' x '.join(map(str, request.spatial))}, smaller than the filters, 3",
                "at least 3 points in every dimension",
                "check the layout (--layout), or resample the data",
            )
        widths = [width or WIDTH[dims]]
        while len(widths) < LEVELS and (side := (side + 1) // 2) >= LEAST_SIDE:
            widths.append(2 * widths[-1])
        self.enter = TwoConvolutions(dims, request.in_channels, widths[0])
        self.down = nn.ModuleList(CONV[dims](a, b, 2, stride=2, padding=0) for a, b in pairwise(widths))
        self.coarse = nn.ModuleList(TwoConvolutions(dims, c, c) for c in widths[1:])
        self.up = nn.ModuleList(CONV_TRANSPOSED[dims](b, a, 2, stride=2) for a, b in pairwise(widths))
        self.fine = nn.ModuleList(TwoConvolutions(dims, 2 * c, c) for c in widths[:-1])
        self.leave = CONV[dims](widths[0], request.outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen = [self.enter(x)]
        for down, coarse in zip(self.down, self.coarse, strict=True):
            seen.append(coarse(down(_even(seen[-1]))))
        y = seen.pop()
        for up, fine in zip(reversed(self.up), reversed(self.fine), strict=True):
            finer = seen.pop()
            grown = up(y)[(slice(None), slice(None), *(slice(0, n) for n in finer.shape[2:]))]
            y = fine(torch.cat((finer, grown), dim=1))
        out: Tensor = self.leave(y)
        return out


def _even(x: Tensor) -> Tensor:
    """A row of zeros more where a side is odd, so that no point is lost in halving."""
    pad = [p for n in reversed(x.shape[2:]) for p in (0, n % 2)]
    return nn.functional.pad(x, pad) if any(pad) else x
