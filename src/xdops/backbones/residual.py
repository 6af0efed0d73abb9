"""A small residual CNN in one, two or three dimensions: the default for classification and regression.

Global mean pooling before the last layer is what makes it a *convolutional* guess: where things are is left to the operations.
"""

from torch import Tensor, nn

from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request
from xdops.errors import XDError

#: Filter size per number of dimensions: about as many taps in each case.
KERNEL = {1: 7, 2: 3, 3: 3}
#: Halve the grid between blocks while every side stays at least this long.
LEAST_SIDE = 8


class ResidualBlock(nn.Module):
    """x -> relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, dims: int, c_in: int, c_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        pad = kernel // 2
        self.conv1 = CONV[dims](c_in, c_out, kernel, stride=stride, padding=pad, bias=False)
        self.norm1 = NORM[dims](c_out)
        self.conv2 = CONV[dims](c_out, c_out, kernel, padding=pad, bias=False)
        self.norm2 = NORM[dims](c_out)
        same = c_in == c_out and stride == 1
        self.shortcut = nn.Identity() if same else CONV[dims](c_in, c_out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(self.conv1(x)).relu()
        return (self.shortcut(x) + self.norm2(self.conv2(y))).relu()


class ResidualCNN(nn.Module):
    """Stem, `blocks` residual blocks of growing width, mean over the grid, linear."""

    def __init__(self, request: Request, width: int = 16, blocks: int = 3, kernel: int | None = None) -> None:
        super().__init__()
        dims = request.dims
        if kernel is None:
            kernel = KERNEL[dims]
        self.kernel, self.smallest = kernel, min(request.spatial)
        if self.smallest < kernel:
            raise XDError(
                f"a grid of {' x '.join(map(str, request.spatial))}, smaller than the backbone's filters of size {kernel}",
                f"at least {kernel} points in every dimension",
                "pad or resample the data, check the layout (--layout), or bring a backbone with smaller filters (--backbone)",
            )
        self.stem = nn.Sequential(
            CONV[dims](request.in_channels, width, kernel, padding=kernel // 2, bias=False), NORM[dims](width), nn.ReLU()
        )
        layers, c, side = [], width, self.smallest
        for _ in range(blocks):
            halve = side // 2 >= LEAST_SIDE
            wider = c * 2 if halve and c < 4 * width else c
            layers.append(ResidualBlock(dims, c, wider, kernel, 2 if halve else 1))
            c, side = wider, (side + 1) // 2 if halve else side
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Linear(c, request.outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.stem(x))
        return self.head(y.flatten(2).mean(dim=-1))
