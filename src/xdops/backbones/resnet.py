"""ResNets for small images (He et al. 2016): shortcuts without parameters, so that every one of them can become an operation.

Where a stage halves the grid and doubles the channels, the shortcut keeps every second point and adds channels of zeros on both
sides ("option A"). To convert these as well as the identities: XDConfig(skips=True, shortcuts=SHORTCUTS).
"""

from torch import Tensor, nn

from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request
from xdops.convert.kinds.shortcut import Shortcut

#: Pattern of the names under which the shortcuts stand.
SHORTCUTS = ("blocks.*.shortcut",)
WIDTHS = (16, 32, 64)


class ResNetBlock(nn.Module):
    """x -> relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, dims: int, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = CONV[dims](c_in, c_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = NORM[dims](c_out)
        self.conv2 = CONV[dims](c_out, c_out, 3, padding=1, bias=False)
        self.norm2 = NORM[dims](c_out)
        same = c_in == c_out and stride == 1
        self.shortcut = nn.Identity() if same else Shortcut((stride,) * dims, c_in, c_out, (c_out - c_in) // 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(self.conv1(x)).relu()
        return (self.shortcut(x) + self.norm2(self.conv2(y))).relu()


class ResNet(nn.Module):
    """Stem, three stages of `per_stage` blocks with 16, 32 and 64 channels, mean over the grid, linear."""

    def __init__(self, request: Request, per_stage: int) -> None:
        super().__init__()
        dims = request.dims
        self.stem = nn.Sequential(
            CONV[dims](request.in_channels, WIDTHS[0], 3, padding=1, bias=False), NORM[dims](WIDTHS[0]), nn.ReLU()
        )
        blocks, c = [], WIDTHS[0]
        for width in WIDTHS:
            for _ in range(per_stage):
                blocks.append(ResNetBlock(dims, c, width, stride=1 if c == width else 2))
                c = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(c, request.outputs)
        for module in self.modules():
            if isinstance(module, (CONV[dims], nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.stem(x))
        return self.head(y.flatten(2).mean(dim=-1))


class ResNet20(ResNet):
    """1 + 18 + 1 layers."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, per_stage=3)


class ResNet8(ResNet):
    """1 + 6 + 1 layers: a fraction of the cost, for the scale of a laptop."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, per_stage=1)
