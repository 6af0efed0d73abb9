"""Search spaces over a backbone's layers, by name: a new one is one function and one line in the table."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

from xdops.arguments import check, check_fields
from xdops.convert import ConversionReport, XDConfig, convert_
from xdops.convert.replace import FilterFn
from xdops.convert.uses import ExampleInput
from xdops.errors import XDError
from xdops.spaces.darts import darts_, discretize_
from xdops.spaces.edge import OPERATIONS, DartsEdge
from xdops.spaces.exporting import export
from xdops.spaces.saving import load, save

__all__ = ["OPERATIONS", "SPACES", "DartsEdge", "SpaceSettings", "apply", "darts_", "discretize_", "export", "load", "save"]


@dataclass(frozen=True)
class SpaceSettings:
    """One set of settings for all spaces, so that they can be compared."""

    config: XDConfig = field(default_factory=XDConfig)  # which layers are searched, in every space; the rest of it is for xd
    darts_perturb: float = 0.1  # weight that starts elsewhere than on the backbone's operation; 0.875 is uniform
    filter_fn: FilterFn | None = None

    def __post_init__(self) -> None:
        check_fields(self)


Conversion = Callable[[nn.Module, ExampleInput, SpaceSettings], ConversionReport]


def backbone(model: nn.Module, example_input: ExampleInput, settings: SpaceSettings) -> ConversionReport:
    """No search."""
    return ConversionReport((), ())


def xd(model: nn.Module, example_input: ExampleInput, settings: SpaceSettings) -> ConversionReport:
    """XD-operations, warm-started as the backbone."""
    return convert_(model, example_input, settings.config, settings.filter_fn)


def darts(model: nn.Module, example_input: ExampleInput, settings: SpaceSettings) -> ConversionReport:
    """The paper's relaxed discrete set."""
    return darts_(model, example_input, settings.config, settings.darts_perturb, settings.filter_fn)


SPACES: dict[str, Conversion] = {"backbone": backbone, "darts": darts, "xd": xd}


def apply(
    name: str,
    model: nn.Module,
    example_input: ExampleInput,
    settings: SpaceSettings = SpaceSettings(),  # noqa: B008  frozen
) -> ConversionReport:
    """Turn the backbone into the named search space, in place."""
    check("name", name, str, "apply")
    check("settings", settings, SpaceSettings, "apply")
    if name not in SPACES:
        raise XDError(f"the search space {name!r}", f"one of {', '.join(SPACES)}", "'xd'")
    return SPACES[name](model, example_input, settings)
