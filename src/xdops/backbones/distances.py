"""PDNET's residual network for maps of distances (Adhikari 2020), plain or with dilations 1, 2, 4 in turn.

Norm, ReLU, 1x1 convolution; blocks of [norm, ReLU, 3x3, dropout, ReLU, 3x3 dilated] beside a skip; norm, ReLU, 3x3 to the outputs,
ReLU, since distances are positive. Depth counts convolutions, as in the paper: depth 18 is 8 blocks, of 0.038 million parameters.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request
from xdops.errors import XDError

WIDTH = 16
DROPOUT = 0.3
CYCLE = (1, 2, 4)


class DistanceBlock(nn.Module):
    """x -> x + conv(relu(dropout(conv(relu(norm(x))))))."""

    def __init__(self, dims: int, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = NORM[dims](width)
        self.conv1 = CONV[dims](width, width, 3, padding=1)
        self.dropout = nn.Dropout(DROPOUT)
        self.conv2 = CONV[dims](width, width, 3, padding=dilation, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(self.norm(x).relu())
        return x + self.conv2(self.dropout(y).relu())


class DistanceResNet(nn.Module):
    """A map of the inputs' size from features of any scale."""

    def __init__(self, request: Request, depth: int = 18, width: int = WIDTH, dilations: Sequence[int] = (1,)) -> None:
        super().__init__()
        if depth < 4 or depth % 2:
            raise XDError(f"depth={depth}", "an even number of at least 4: two convolutions and two per block", "depth=18")
        dims, blocks = request.dims, (depth - 2) // 2
        self.stem_norm = NORM[dims](request.in_channels)
        self.stem = CONV[dims](request.in_channels, width, 1)
        self.blocks = nn.Sequential(*(DistanceBlock(dims, width, dilations[i % len(dilations)]) for i in range(blocks)))
        self.norm = NORM[dims](width)
        self.head = CONV[dims](width, request.outputs, 3, padding=1)
        for module in self.modules():
            if isinstance(module, CONV[dims]):  # as in Keras, which PDNET is written in
                nn.init.xavier_uniform_(module.weight)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(self.stem_norm(x).relu()))
        y: Tensor = self.head(self.norm(x).relu())
        return y.relu()


def dilated_resnet(request: Request, depth: int = 18, width: int = WIDTH) -> DistanceResNet:
    """The one that PDNET was made with: the second convolution of a block has dilation 1, 2, 4, 1, ..."""
    return DistanceResNet(request, depth, width, CYCLE)
