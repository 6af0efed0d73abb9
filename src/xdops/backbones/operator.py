"""The CNN of the FNO family: a grid in and a grid of the same sizes out.

Lift to `width` channels, four layers of [operation + 1x1 convolution, batch norm, ReLU but for the last], project to 128, ReLU,
project to the outputs. Operations plug in as `make_operation`. The default for dense prediction has walls: zero padding, and the
coordinates of every point beside the data. On a torus, which the paper's Burgers and Navier-Stokes data live on, convolutions are
circular and every point is like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from xdops.backbones.coordinates import with_coordinates
from xdops.backbones.layers import CONV, NORM
from xdops.backbones.request import Request
from xdops.errors import XDError

#: Channels and filter size per number of dimensions, as in the published networks.
WIDTH = {1: 64, 2: 32, 3: 20}
KERNEL = {1: 17, 2: 13, 3: 9}
LAYERS = 4
PROJECTION = 128

#: (dims, width, spatial) -> the operation of one layer, width channels in and out on the same grid.
MakeOperation = Callable[[int, int, tuple[int, ...]], nn.Module]


def convolution(kernel: int | Sequence[int], padding_mode: Literal["zeros", "circular"]) -> MakeOperation:
    """Layers whose operation is a convolution of this odd size, one number or one per dimension, without bias."""

    def make(dims: int, width: int, spatial: tuple[int, ...]) -> nn.Module:
        sizes: Any = (kernel,) * dims if isinstance(kernel, int) else tuple(kernel)
        padding: Any = tuple(k // 2 for k in sizes)
        return CONV[dims](width, width, sizes, padding=padding, padding_mode=padding_mode, bias=False)

    return make


class OperatorLayer(nn.Module):
    """norm(operation(x) + 1x1 convolution(x))."""

    def __init__(self, dims: int, width: int, operation: nn.Module) -> None:
        super().__init__()
        self.operation = operation
        self.pointwise = CONV[dims](width, width, 1)
        self.norm = NORM[dims](width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.operation(x) + self.pointwise(x))
        return y


class OperatorNet(nn.Module):
    """A map between functions on a grid."""

    def __init__(
        self,
        request: Request,
        make_operation: MakeOperation,
        width: int | None = None,
        layers: int = LAYERS,
        coordinates: bool = False,
    ) -> None:
        super().__init__()
        dims = request.dims
        width = width or WIDTH[dims]
        self.coordinates = coordinates
        self.lift = CONV[dims](request.in_channels + (dims if coordinates else 0), width, 1)
        self.layers = nn.ModuleList(OperatorLayer(dims, width, make_operation(dims, width, request.spatial)) for _ in range(layers))
        self.project = nn.Sequential(CONV[dims](width, PROJECTION, 1), nn.ReLU(), CONV[dims](PROJECTION, request.outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.lift(with_coordinates(x) if self.coordinates else x)
        for i, layer in enumerate(self.layers):
            x = layer(x) if i == len(self.layers) - 1 else layer(x).relu()
        y: Tensor = self.project(x)
        return y


def operator_cnn(request: Request, width: int | None = None, kernel: int | Sequence[int] | None = None) -> OperatorNet:
    """The FNO family's CNN, on a torus; its filters shrink to the largest odd size that the grid holds."""
    return OperatorNet(request, convolution(kernel or largest_kernel(request), "circular"), width)


def walled_cnn(request: Request) -> OperatorNet:
    """The same where the grid has an edge: zero padding, and coordinates beside the data."""
    return OperatorNet(request, convolution(largest_kernel(request), "zeros"), coordinates=True)


def largest_kernel(request: Request) -> int:
    smallest = min(request.spatial)
    if smallest < 3:
        raise XDError(
            f"a grid of {' x '.join(map(str, request.spatial))}, smaller than the smallest filter, 3",
            "at least 3 points in every dimension",
            "check the layout (--layout), or resample the data",
        )
    return min(KERNEL[request.dims], smallest - 1 + smallest % 2)
