"""LeNet: two 5-wide convolutions, each with a max pool, and fully connected layers."""

from torch import Tensor, nn

from xdops.backbones.layers import CONV
from xdops.backbones.request import Request
from xdops.errors import XDError

MAX_POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
KERNEL = 5
WIDTHS = (6, 16)
HIDDEN = (120, 84)
#: The shortest side of which the second pool still sees something: 16 -> 12 -> 6 -> 2 -> 1.
LEAST_SIDE = 16


class LeNet(nn.Module):
    """[convolution without padding, ReLU, pool by 2] twice, then 120, 84 and `outputs` units."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        dims = request.dims
        if min(request.spatial) < LEAST_SIDE:
            raise XDError(
                f"a grid of {' x '.join(map(str, request.spatial))} for LeNet, whose filters and pools leave nothing of it",
                f"at least {LEAST_SIDE} points in every dimension",
                "pad the data, check the layout (--layout), or another backbone (--backbone residual)",
            )
        self.conv1 = CONV[dims](request.in_channels, WIDTHS[0], KERNEL)
        self.pool1 = MAX_POOL[dims](2)
        self.conv2 = CONV[dims](*WIDTHS, KERNEL)
        self.pool2 = MAX_POOL[dims](2)
        features = WIDTHS[1]
        for side in request.spatial:
            features *= after_layer(after_layer(side))
        self.head = nn.Sequential(
            nn.Linear(features, HIDDEN[0]), nn.ReLU(), nn.Linear(*HIDDEN), nn.ReLU(), nn.Linear(HIDDEN[1], request.outputs)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool1(self.conv1(x).relu())
        x = self.pool2(self.conv2(x).relu())
        y: Tensor = self.head(x.flatten(1))
        return y


def after_layer(side: int) -> int:
    """Points that a convolution and a pool leave."""
    return (side - KERNEL + 1) // 2
