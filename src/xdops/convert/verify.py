"""The whole model before and after surgery: layers that agree one by one must agree together."""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from xdops.convert.refusals import tensors_of
from xdops.convert.uses import ExampleInput, arguments, relative_difference, undisturbed
from xdops.errors import XDError
from xdops.operations import Operation


def run_by_architecture(model: nn.Module, example_input: ExampleInput) -> list[Tensor]:
    """The model's outputs in eval mode, every operation evaluated by its matrices, not by the layer that may stand in."""
    args, kwargs = arguments(example_input)
    with undisturbed(model), ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Operation):
                stack.enter_context(module.by_architecture())
        return real_tensors(model(*args, **kwargs))


def real_tensors(output: object) -> list[Tensor]:
    """What can be compared of a model's output."""
    return [t.detach().clone() for t in tensors_of(output) if t.is_floating_point() or t.is_complex()]


def difference(given: Sequence[Tensor], expected: Sequence[Tensor]) -> float | None:
    """The largest relative difference of any output; None if there is no number to compare."""
    if len(given) != len(expected):
        return float("inf")
    pairs = [(g, e) for g, e in zip(given, expected, strict=True) if g.isfinite().any() or e.isfinite().any()]
    return max((relative_difference(g, e) for g, e in pairs), default=None)


def rounding(outputs: Sequence[Tensor]) -> float:
    """How far apart two ways to compute the same may be."""
    return 3 * max((torch.finfo(t.dtype).eps for t in outputs), default=0.0) ** 0.5


def broken(why: str) -> XDError:
    return XDError(
        f"a model that {why} once its layers are replaced, although each of them computes what it did",
        "a model that only calls its layers; nothing was converted",
        "filter_fn=lambda name, module: ... to leave such layers alone",
    )
