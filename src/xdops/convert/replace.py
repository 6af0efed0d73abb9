"""Model surgery, the same for every search space: choose layers, see what they receive, build an edge for each, then swap all."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

from torch import nn
from torch.nn.parameter import is_lazy

from xdops.convert.config import XDConfig
from xdops.convert.edges import Edge, Origin, set_origin
from xdops.convert.kinds import Kind, kind_of
from xdops.convert.kinds.kind import Layer, LeaveAlone
from xdops.convert.report import ConversionReport, ConvertedLayer, LeftAlone
from xdops.convert.uses import ExampleInput, Uses, record_uses, undisturbed
from xdops.convert.weights import has_other_hooks
from xdops.errors import XDError
from xdops.operations import XDOperation

FilterFn = Callable[[str, nn.Module], bool]


@dataclass(frozen=True)
class Built:
    """An edge, ready to take a layer's place."""

    edge: nn.Module
    origin: Origin
    became: str
    size: tuple[int, ...]
    depth: tuple[int, int, int] | None
    weights: int
    note: str = ""


Build = Callable[[Layer], Built]


def replace_(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, build: Build
) -> ConversionReport:
    """Put what `build` makes in the place of every chosen layer. Nothing changes before everything is built."""
    config.check_patterns([name for name, _ in model.named_modules()])
    chosen_layers, left = choose(model, config, filter_fn)
    uses = record_uses(model, example_input, {c.name: c.module for c in chosen_layers})
    converted, swaps = [], []
    with undisturbed(model):
        for chosen in chosen_layers:
            layer = dataclasses.replace(chosen, uses=uses.pop(chosen.name))  # what it saw is needed no longer than this
            try:
                check_uses(layer)
                layer.uses.add_random(layer.module)
                built = build(layer)
            except LeaveAlone as why:
                left.append(LeftAlone(layer.name, layer.kind.describe(layer.module), str(why)))
                continue
            except XDError as error_:
                raise XDError(f"{layer.name}: {error_.given}", error_.expected, error_.hint) from error_
            swaps.append((layer.module, built))
            converted.append(row(layer, built))
    for module, built in swaps:
        set_origin(built.edge, built.origin)
        swap(model, module, built.edge)
    return ConversionReport(tuple(converted), tuple(left))


def choose(model: nn.Module, config: XDConfig, filter_fn: FilterFn | None) -> tuple[list[Layer], list[LeftAlone]]:
    """The layers that the config and the filter ask for, and those that they do not."""
    chosen, left = [], []
    owners: dict[int, int] = {}
    for module in model.modules():
        for p in module._parameters.values():
            owners[id(p)] = owners.get(id(p), 0) + 1
    for name, module, kind in layers(model, config):
        own = config.at(name)
        was = kind.describe(module)
        if kind.switch is not None and not getattr(own, kind.switch):
            left.append(LeftAlone(name, was, f"the config says {kind.switch}=False"))
        elif filter_fn is not None and not filter_fn(name, module):
            left.append(LeftAlone(name, was, "filter_fn says no"))
        elif has_other_hooks(module):
            left.append(LeftAlone(name, was, "it has hooks, which would be lost"))
        elif name == "":
            raise XDError(
                f"a model that is itself a {was}",
                "a model that contains the layers to convert, so that they can be replaced in place",
                "model = nn.Sequential(model)",
            )
        elif any(is_lazy(p) for p in module.parameters()):
            raise XDError(f"{name}, a {was} without initialised parameters", "an initialised model", "model(example_input) once")
        else:
            tied = any(owners[id(p)] > 1 for p in module._parameters.values() if p is not None)
            chosen.append(Layer(name, module, kind, own, Uses(), tied))
    return chosen, left


def layers(model: nn.Module, config: XDConfig) -> Iterator[tuple[str, nn.Module, Kind]]:
    """Every convertible layer once, with its kind; what is inside of one, or of an edge, is not looked at."""
    seen: set[int] = set()

    def walk(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module, Kind]]:
        if id(module) in seen or isinstance(module, Edge):
            return
        seen.add(id(module))
        kind = kind_of(module, name, config)
        if kind is not None:
            yield name, module, kind
            return
        for key, child in module.named_children():
            yield from walk(f"{name}.{key}" if name else key, child)

    return walk("", model)


def check_uses(layer: Layer) -> None:
    """Leave alone what the example does not reach, and what it uses in ways an operation cannot."""
    if layer.uses.problem:
        raise LeaveAlone(layer.uses.problem)
    if not layer.uses.recorded:
        raise LeaveAlone("the example input never reaches it")
    ranks = {x.dim() for x in layer.inputs}
    dims = layer.kind.dimensions(layer.module)
    if dims is None:
        if len(ranks) > 1 or not 3 <= min(ranks) <= 5:
            raise LeaveAlone(f"it sees {' and '.join(map(str, sorted(ranks)))} dimensions, not (batch, channels, 1 to 3 more)")
    elif ranks != {dims + 2}:
        raise LeaveAlone("it sees single examples without a batch dimension")
    if not all(x.is_floating_point() and x.numel() for x in layer.inputs):
        raise LeaveAlone(f"it sees {layer.inputs[0].dtype} of shape {tuple(layer.inputs[0].shape)}, not real numbers")


def row(layer: Layer, built: Built) -> ConvertedLayer:
    by_architecture = built.edge.by_architecture() if isinstance(built.edge, XDOperation) else nullcontext()
    with by_architecture:  # what its matrices compute, not the layer that may stand in for them
        error = layer.uses.largest_error(built.edge)
    architecture = sum(p.numel() for _, p in cast(Edge, built.edge).architecture())
    return ConvertedLayer(
        layer.name, layer.kind.describe(layer.module), built.became, built.size, built.depth, built.weights, architecture, error,
        built.note,
    )  # fmt: skip


def swap(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` stands in the model."""
    new.train(old.training)
    for parent in list(model.modules()):
        for key, child in parent._modules.items():
            if child is old:
                parent._modules[key] = new


def count(module: Any) -> int:
    """Weights of an edge."""
    return sum(p.numel() for p in module.weight_parameters())
