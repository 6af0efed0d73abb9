"""Wide residual networks (Zagoruyko & Komodakis 2016) with norm and ReLU before each convolution; WRN-40-4 unless told otherwise.

Convolutions have biases: with them WRN-40-4 has the 8.96 million parameters of the paper's complexity table, without them 8.95.
"""

from torch import Tensor, nn

from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request
from xdops.errors import XDError

STEM = 16


class WideBlock(nn.Module):
    """a = relu(norm(x)); x -> shortcut + conv(relu(norm(conv(a)))), the shortcut x itself, or a 1x1 convolution of a."""

    def __init__(self, dims: int, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = NORM[dims](c_in)
        self.conv1 = CONV[dims](c_in, c_out, 3, stride=stride, padding=1)
        self.norm2 = NORM[dims](c_out)
        self.conv2 = CONV[dims](c_out, c_out, 3, padding=1)
        self.projects = c_in != c_out or stride != 1
        self.shortcut = CONV[dims](c_in, c_out, 1, stride=stride) if self.projects else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        a = self.norm1(x).relu()
        y = self.conv2(self.norm2(self.conv1(a)).relu())
        return self.shortcut(a if self.projects else x) + y


class WideResNet(nn.Module):
    """Stem, three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `widen` channels, norm, ReLU, mean, linear."""

    def __init__(self, request: Request, depth: int = 40, widen: int = 4) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise XDError(f"depth={depth}", "four more than a multiple of six, at least 10", "depth=40")
        dims = request.dims
        self.stem = CONV[dims](request.in_channels, STEM, 3, padding=1)
        blocks, c = [], STEM
        for stage in range(3):
            width = STEM * 2**stage * widen
            for block in range((depth - 4) // 6):
                blocks.append(WideBlock(dims, c, width, stride=2 if stage and not block else 1))
                c = width
        self.blocks = nn.Sequential(*blocks)
        self.norm = NORM[dims](c)
        self.head = nn.Linear(c, request.outputs)
        for module in self.modules():
            if isinstance(module, CONV[dims]):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.blocks(self.stem(x))).relu()
        return self.head(y.flatten(2).mean(dim=-1))
