"""Search spaces over a backbone's layers, by name: a new one is one function and one line in the table."""

from collections.abc import Callable

from torch import nn

from xdops.convert import ConversionReport, XDConfig, convert_
from xdops.convert.replace import FilterFn
from xdops.convert.uses import ExampleInput
from xdops.errors import XDError
from xdops.spaces.darts import darts_
from xdops.spaces.edge import OPERATIONS, DartsEdge

__all__ = ["OPERATIONS", "SPACES", "DartsEdge", "apply", "darts_"]

Space = Callable[[nn.Module, ExampleInput, XDConfig, FilterFn | None, float], ConversionReport]


def backbone(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, darts_perturb: float
) -> ConversionReport:
    """No search."""
    return ConversionReport((), ())


def xd(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, darts_perturb: float
) -> ConversionReport:
    """XD-operations, warm-started as the backbone."""
    return convert_(model, example_input, config, filter_fn)


def darts(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, darts_perturb: float
) -> ConversionReport:
    """The paper's relaxed discrete set."""
    return darts_(model, example_input, config, darts_perturb, filter_fn)


SPACES: dict[str, Space] = {"backbone": backbone, "darts": darts, "xd": xd}


def apply(
    name: str,
    model: nn.Module,
    example_input: ExampleInput,
    config: XDConfig = XDConfig(),  # noqa: B008  frozen
    filter_fn: FilterFn | None = None,
    darts_perturb: float = 0.1,
) -> ConversionReport:
    """Turn the backbone into the named search space, in place. Config and filter choose the same layers in every space."""
    if name not in SPACES:
        raise XDError(f"the search space {name!r}", f"one of {', '.join(SPACES)}", f"{next(reversed(SPACES))!r}")
    return SPACES[name](model, example_input, config, filter_fn, darts_perturb)
