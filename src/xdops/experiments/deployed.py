"""A network that a search has found, with its scaling before and after: arrays in, predictions out, both as in the data.

Inputs are one batch of the data file's own array x: its layout, its units. For sequences, (batch, steps, channels). Outputs are
what `xdops predict` writes: `probability` for classes, otherwise `prediction` in the units of the targets.
"""

import json

import torch
from torch import Tensor, nn

from xdops.data.scaling import Scaling
from xdops.data.task import Reading
from xdops.errors import XDError

#: Largest mean in standard deviations, and least deviation, that leave three digits and more in single precision.
LARGEST_OFFSET, LEAST = 1e4, 1e-30


class Deployed(nn.Module):
    """scale, network, unscale, as one module."""

    def __init__(self, network: nn.Module, reading: Reading) -> None:
        super().__init__()
        self.network, self.ragged = network, reading.request.ragged
        self.classes = bool(reading.classes)
        self.layout = "NLC" if self.ragged else reading.layout
        check_inputs(reading.x_scaling)
        self.into = PerChannel(reading.x_scaling, len(reading.request.spatial))
        self.out: nn.Module = nn.Identity()
        if reading.y_scaling is not None:
            self.out = PerChannel(reading.y_scaling, len(reading.request.output_shape) - 1, undo=True)
        elif not self.classes:
            self.out = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(1) if "C" not in self.layout else x.movedim(self.layout.index("C"), 1)
        y: Tensor = self.network(self.into(x))
        if self.classes:
            return (y[..., -1] if self.ragged else y).softmax(dim=1)
        y = self.out(y)
        return y.movedim(1, 2) if self.ragged else y


def check_inputs(scaling: Scaling) -> None:
    """Refuse what the file, in single precision, would get wrong, and `xdops predict`, which scales in double precision, not."""
    for mean, std in zip(scaling.mean, scaling.std, strict=True):
        most = 1 / LEAST if std == 1.0 else LARGEST_OFFSET * std  # 1: it never changes
        if abs(mean) > most or not LEAST <= std <= 1 / LEAST:
            raise XDError(
                f"x around {mean:.6g} with deviations of {std:.3g}, which seven digits do not show",
                "numbers that a file in single precision can take",
                "search again with an offset subtracted from x, or in other units",
            )


class PerChannel(nn.Module):
    """(x - mean) / std of every channel, or the way back."""

    mean: Tensor
    std: Tensor

    def __init__(self, scaling: Scaling, dims: int, undo: bool = False) -> None:
        super().__init__()
        self.undo = undo
        for name, values in (("mean", scaling.mean), ("std", scaling.std)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32).reshape(-1, *(1 for _ in range(dims))))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.std + self.mean if self.undo else (x - self.mean) / self.std


def raw_example(reading: Reading) -> Tensor:
    """Two random examples as they might stand in the data file."""
    scaling = PerChannel(reading.x_scaling, len(reading.request.spatial), undo=True)
    x = scaling(torch.randn(2, *reading.request.input_shape, generator=torch.Generator().manual_seed(0)))
    layout = "NLC" if reading.request.ragged else reading.layout
    return x.squeeze(1) if "C" not in layout else x.movedim(1, layout.index("C"))


def notes_of(reading: Reading) -> dict[str, str]:
    """What a reader of an exported file has to know beside the graph."""
    layout = "NLC" if reading.request.ragged else reading.layout
    notes = {"kind": reading.request.kind, "layout": layout, "output": "probability" if reading.classes else "prediction"}
    return notes | ({"classes": json.dumps(list(reading.classes))} if reading.classes else {})
