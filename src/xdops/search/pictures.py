"""What operations are, as small images: rows are outputs, columns inputs."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from xdops.operations import XDOperation
from xdops.operations.dense import dense_operations

#: Layers that are shown, the first ones; and the largest grid on which single points can still be seen.
MOST_LAYERS = 8
MOST_POINTS = 256


def operator_pictures(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names and colours (3, outputs, inputs) of every dimension of the first XD-operations."""
    operations = [
        (name, op) for name, op in network.named_modules() if isinstance(op, XDOperation) and max(op.sizes) <= MOST_POINTS
    ]
    for name, op in operations[:MOST_LAYERS]:
        for dim, dense in enumerate(dense_operations(op, [axis.longest for axis in op.axes])):
            yield f"operator {name}/dimension {dim}", coloured(torch.from_numpy(dense.A).real.float())


def coloured(matrix: Tensor) -> Tensor:
    """Blue negative, white zero, red positive, on the matrix's own scale."""
    values = matrix / matrix.abs().max().clamp(min=torch.finfo(matrix.dtype).tiny)
    fade = 1 - values.abs()
    return torch.stack((torch.where(values > 0, 1.0, fade), fade, torch.where(values < 0, 1.0, fade)))
