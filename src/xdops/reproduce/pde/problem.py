"""The learning problem: inputs are the known functions and the coordinates, the loss is the relative L2 error of the solution."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xdops.backbones.request import Request
from xdops.reproduce.pde.functions import Functions
from xdops.search import Metric, Problem, Split

#: Added to standard deviations, which are zero where a function is held fixed: on the boundary of Darcy's square.
LEAST_DEVIATION = 1e-5


@dataclass(frozen=True, eq=False)
class Pointwise:
    """Mean and standard deviation over the training samples, at every point of the grid."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, samples: Tensor) -> "Pointwise":
        return cls(samples.mean(dim=0), samples.std(dim=0) + LEAST_DEVIATION)

    def apply(self, samples: Tensor) -> Tensor:
        return (samples - self.mean) / self.std

    def undo(self, samples: Tensor) -> Tensor:
        return samples * self.std.to(samples) + self.mean.to(samples)


@dataclass(frozen=True, eq=False)
class RelativeErrors:
    """|prediction - y| / |y| over the grid, of predictions that are scaled pointwise, or not at all."""

    scaling: Pointwise | None

    def of_each(self, prediction: Tensor, y: Tensor) -> Tensor:
        if self.scaling is not None:
            prediction = self.scaling.undo(prediction)
        return (prediction - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)


class SumOfErrors(RelativeErrors):
    """The loss."""

    def __call__(self, prediction: Tensor, y: Tensor) -> Tensor:
        return self.of_each(prediction, y).sum()


class MeanOfErrors(RelativeErrors):
    """The metric."""

    def __call__(self, prediction: Tensor, y: Tensor) -> Tensor:
        return self.of_each(prediction, y).mean()


def make_problem(functions: Functions, scaled: bool) -> Problem:
    """scaled: known and asked functions are normalised pointwise (Darcy, Navier-Stokes), or used as they are (Burgers).

    The published protocol has no validation part: nothing is selected, and the error after the last epoch is what counts. Where
    the test samples stand in its place, which gives test curves, whoever selects an epoch must not report it from here.
    """
    known, asked = _tensor(functions.known_train), _tensor(functions.asked_train)
    scaling = Pointwise.of(asked) if scaled else None
    of_known = Pointwise.of(known) if scaled else None
    places = _tensor(functions.places)

    def part(known: np.ndarray, asked: np.ndarray) -> Split:
        x = _tensor(known) if of_known is None else of_known.apply(_tensor(known))
        return Split(_with_places(x, places), _tensor(asked))

    train = part(functions.known_train, functions.asked_train)
    validation = part(functions.known_validation, functions.asked_validation)
    test = part(functions.known_test, functions.asked_test)
    metric = Metric("relative L2 error", MeanOfErrors(scaling), higher_is_better=False)
    return Problem(train, validation, test, SumOfErrors(scaling), metric, reduction="sum")


def request_of(functions: Functions) -> Request:
    dims = len(functions.grid)
    return Request("dense", functions.known_train.shape[1] + dims, 1, functions.grid)


def _with_places(known: Tensor, places: Tensor) -> Tensor:
    return torch.cat([known, places.expand(len(known), *places.shape)], dim=1)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
