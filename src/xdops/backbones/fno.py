"""The Fourier neural operator: the operator network whose operation keeps the lowest Fourier modes."""

from collections.abc import Sequence

from torch import nn

from xdops.backbones.operator import MakeOperation, OperatorNet
from xdops.backbones.request import Request
from xdops.errors import XDError
from xdops.operations.catalogue.fourier import SpectralConv, most_modes

__all__ = ["MODES", "SpectralConv", "fourier_layer", "operator_fno"]

#: Modes kept in every dimension, per number of dimensions, as in the published networks.
MODES = {1: 16, 2: 12, 3: 8}


def fourier_layer(modes: Sequence[int]) -> MakeOperation:
    """Layers whose operation is a SpectralConv with so many modes per dimension."""

    def make(dims: int, width: int, spatial: tuple[int, ...]) -> nn.Module:
        return SpectralConv(width, width, modes)

    return make


def operator_fno(request: Request, width: int | None = None, modes: int | Sequence[int] | None = None) -> OperatorNet:
    """The FNO with `modes` in every dimension or one number per dimension, fewer where the grid holds fewer."""
    asked = modes if modes is not None else MODES[request.dims]
    wanted = (asked,) * request.dims if isinstance(asked, int) else tuple(asked)
    if len(wanted) != request.dims or min(wanted) < 1:
        raise XDError(f"modes {modes}", f"a positive number, or {request.dims} of them", f"modes={MODES[request.dims]}")
    held = most_modes(request.spatial)
    if min(held) < 1:
        raise XDError(
            f"a grid of {' x '.join(map(str, request.spatial))}, too small for a single mode",
            "at least 2 points in every dimension",
            "check the layout (--layout), or resample the data",
        )
    return OperatorNet(request, fourier_layer([min(w, h) for w, h in zip(wanted, held, strict=True)]), width)
