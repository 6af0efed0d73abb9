"""Two convolutions and a mean: the smallest network for which it matters that its operations suit the data."""

from torch import Tensor, nn

from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request


class SmallCNN(nn.Module):
    """[3-wide convolution, batch norm, ReLU] twice, mean over the grid, linear."""

    def __init__(self, request: Request, width: int = 16) -> None:
        super().__init__()
        dims = request.dims
        self.conv1 = CONV[dims](request.in_channels, width, 3, padding=1, bias=False)
        self.norm1 = NORM[dims](width)
        self.conv2 = CONV[dims](width, width, 3, padding=1, bias=False)
        self.norm2 = NORM[dims](width)
        self.head = nn.Linear(width, request.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        y: Tensor = self.head(x.flatten(2).mean(dim=-1))
        return y
