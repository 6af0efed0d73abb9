"""A task: parts of the data as tensors, what a network must take and give, loss and metric, and how all this was understood."""

import dataclasses
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
import torch
from torch import Tensor

from xdops.backbones.request import Request, TaskKind
from xdops.data.checks import check_scaled
from xdops.data.layout import LAYOUTS, channels_second, check_layout, guess_layout
from xdops.data.objective import Objective, objective
from xdops.data.scaling import Scaling
from xdops.errors import XDError
from xdops.search import Crops, Problem, Split, Tiles

#: Tiles overlap by this part of their shorter side.
OVERLAP = 4


@dataclass(frozen=True)
class Reading:
    """How arrays become inputs and outputs become predictions: everything `predict` needs, as plain data."""

    request: Request
    layout: str
    x_scaling: Scaling
    y_scaling: Scaling | None  # None for classes
    classes: tuple[str, ...] | tuple[int, ...]  # labels in the order of the outputs; empty unless classification
    floor: float = 0.0  # of the norm of a target grid, for relative errors
    cropped: bool = False  # the network is for crops of request.spatial, and inputs may have any size

    def inputs(self, x: np.ndarray, name: str) -> Tensor:
        """Scaled inputs (N, channels, *spatial), refused unless their shape is the one trained on, or channels are, with crops."""
        layout = self.layout
        if x.ndim != len(layout):
            raise XDError(
                f"{name} of shape {x.shape} for a network that was trained on the layout {layout}",
                f"{len(layout)} dimensions, as in training",
                "an array like that of the search; --x-name if it has another name",
            )
        placed = channels_second(x, layout)
        read = f"{name} with examples of shape {tuple(placed.shape[1:])} (read as {layout})"
        if self.cropped and placed.shape[1] != self.request.in_channels:
            raise XDError(read, f"channels: {self.request.in_channels}, as in training, on a grid of any size", "--x-name")
        if not self.cropped and placed.shape[1:] != self.request.input_shape:
            raise XDError(
                read,
                f"{self.request.input_shape}, channels and grid of the training data",
                "resample, crop or pad to one size",
            )
        values = self.x_scaling.apply(placed)
        check_scaled(values, name)
        return torch.from_numpy(np.ascontiguousarray(values))

    def tiles(self) -> Tiles | None:
        """How inputs of any size are predicted by a network for crops."""
        return Tiles(self.request.spatial, min(self.request.spatial) // OVERLAP) if self.cropped else None

    def objective(self) -> Objective:
        return objective(self.request.kind, self.y_scaling, self.floor)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Reading":
        def scaling(d: dict[str, Any] | None) -> Scaling | None:
            return None if d is None else Scaling(tuple(d["mean"]), tuple(d["std"]))

        r = data["request"]
        reading = cls(
            Request(r["kind"], r["in_channels"], r["outputs"], tuple(r["spatial"])),
            data["layout"],
            cast(Scaling, scaling(data["x_scaling"])),
            scaling(data["y_scaling"]),
            tuple(data["classes"]),
            data["floor"],
            data.get("cropped", False),
        )
        reading.check_sense()
        return reading

    def check_sense(self) -> None:
        """ValueError unless the parts fit each other: what is broadcast may fill the memory, or predict what was not learned."""
        request = self.request
        if request.kind not in get_args(TaskKind) or self.layout not in (("TC",) if request.ragged else LAYOUTS):
            raise ValueError(f"kind {request.kind!r} with layout {self.layout!r}")
        sizes = (request.in_channels, request.outputs, *request.spatial)
        grid = 1 if request.ragged else len(self.layout.replace("C", "")) - 1
        if request.dims != grid or any(type(n) is not int or n < 1 for n in sizes):
            raise ValueError(f"channels, outputs and grid of {sizes}, read as {self.layout}")
        classes = request.outputs if request.kind in ("classification", "sequence-class") else 0
        if len(self.classes) != classes or (not classes and self.y_scaling is None and request.kind != "next-step"):
            raise ValueError(f"{len(self.classes)} classes for {request.kind} with {request.outputs} outputs")
        self.x_scaling.check_sense(request.in_channels)
        if self.y_scaling is not None:
            self.y_scaling.check_sense(request.outputs)


@dataclass(frozen=True)
class Task:
    """What is learned, from where, and how it was understood (`notes`, printed to the user)."""

    name: str
    reading: Reading
    problem: Problem
    notes: tuple[str, ...]

    @property
    def request(self) -> Request:
        return self.reading.request

    @property
    def kind(self) -> TaskKind:
        return self.reading.request.kind

    def example(self) -> Tensor:
        """Two examples, enough for a network to be traced."""
        return self.problem.train.batch(torch.arange(min(2, len(self.problem.train)))).x


def layout_of(x: np.ndarray, given: str | None, name: str) -> str:
    if x.dtype.kind not in "biuf":
        raise XDError(
            f"{name} of type {x.dtype}",
            "real numbers",
            "stack real and imaginary parts as channels" if x.dtype.kind == "c" else "numbers",
        )
    return guess_layout(x.shape) if given is None else check_layout(given, x.shape, name)


def make_problem(parts: dict[str, tuple[Tensor, Tensor]], reading: Reading) -> Problem:
    goal = reading.objective()
    train, validation, test = (Split(*parts[name]) for name in ("train", "val", "test"))
    seen = Crops(train, reading.request.spatial) if reading.cropped else train
    return Problem(seen, validation, test, goal.loss, goal.metric, predictor=reading.tiles())
