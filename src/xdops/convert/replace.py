"""Model surgery, the same for every search space: choose layers, see what they receive, build an edge for each, then swap all."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from xdops.arguments import check
from xdops.convert.config import XDConfig, check_config
from xdops.convert.edges import Edge, Origin, edges, origin_of, set_origin
from xdops.convert.kinds import KINDS, kind_of
from xdops.convert.kinds.kind import Layer, LeaveAlone
from xdops.convert.refusals import check_example, check_finite, check_model
from xdops.convert.report import ConversionReport, ConvertedLayer, LeftAlone
from xdops.convert.uses import ExampleInput, Uses, record_uses, undisturbed
from xdops.convert.verify import broken, difference, real_tensors, rounding, run_by_architecture
from xdops.convert.weights import has_other_hooks
from xdops.errors import XDError, first_line
from xdops.operations import Operation

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


@dataclass(frozen=True)
class Space:
    """A search space: what it was asked for, as plain data, and how it makes an edge."""

    settings: Callable[[XDConfig], dict[str, Any]]
    build: Callable[[Layer], Built]


def replace_(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, space: Space
) -> ConversionReport:
    """Put what the space builds in the place of every chosen layer, if the model as a whole then computes what it did.

    Nothing changes before everything is built, and everything is put back if the model does not agree.
    """
    check_config(config)
    check_model(model, "convert_")
    check_example(example_input)
    check("filter_fn", filter_fn, Callable | None, "xdops.convert_")
    config.check_patterns([name for name, _ in model.named_modules()])
    chosen_layers, left = choose(model, config, filter_fn, space)
    uses, output = record_uses(model, example_input, {c.name: c.module for c in chosen_layers})
    before = real_tensors(output)
    converted, swaps = [], []
    with undisturbed(model):
        for chosen in chosen_layers:
            layer = dataclasses.replace(chosen, uses=uses.pop(chosen.name))  # what it saw is needed no longer than this
            try:
                check_uses(layer)
                layer.uses.add_random(layer.module)
                built = space.build(layer)
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
    try:
        error = whole_error(model, example_input, before, all(r.error <= rounding(before) for r in converted))
    except BaseException:
        for module, built in swaps:
            swap(model, built.edge, module)
        raise
    report = ConversionReport(tuple(converted), tuple(left), error)
    if not any(edges(model)):
        reason = f"{left[0].name} was left alone: {left[0].why}" if left else "it has no layer of a kind that can be converted"
        warnings.warn(f"xdops converted nothing in the model; {reason}", stacklevel=3)
    return report


def whole_error(model: nn.Module, example_input: ExampleInput, before: list[Tensor], agreed: bool) -> float | None:
    """How far the converted model's output is from what it was; refused if that is not rounding although all layers agreed."""
    try:
        after = run_by_architecture(model, example_input)
    except Exception as error:
        raise broken(f"fails ({first_line(error)})") from error
    error_ = difference(after, before)
    if agreed and error_ is not None and error_ > rounding(before):
        # A model with a memory of its own may answer differently every time, converted or not.
        repeated = difference(run_by_architecture(model, example_input), after)
        if not repeated:
            raise broken(f"gives another output (relative difference {error_:.1e})")
    return error_


def choose(model: nn.Module, config: XDConfig, filter_fn: FilterFn | None, space: Space) -> tuple[list[Layer], list[LeftAlone]]:
    """The layers that the config and the filter ask for, and those that they do not."""
    chosen, left = [], []
    owners: dict[int, int] = {}
    for module in model.modules():
        for p in module._parameters.values():
            owners[id(p)] = owners.get(id(p), 0) + 1
    for name, module in layers(model, config):
        if isinstance(module, torch.jit.ScriptModule):
            was = f"TorchScript {module.original_name}"
            left.append(LeftAlone(name, was, "it is compiled: convert_ first, then torch.jit.trace"))
            continue
        origin = origin_of(module)
        layer, kind = (module, kind_of(module, name, config)) if origin is None else (origin.module, KINDS[origin.recipe.kind])
        assert kind is not None
        own, was = config.at(name), kind.describe(layer)
        if off := [switch for switch in kind.switches(layer) if not getattr(own, switch)]:
            left.append(LeftAlone(name, was, f"the config says {off[0]}=False"))
        elif filter_fn is not None and not filter_fn(name, layer):
            left.append(LeftAlone(name, was, "filter_fn says no"))
        elif origin is not None:
            check_same(name, origin.settings, space.settings(own))
            left.append(LeftAlone(name, was, "it is converted already, with the same settings"))
        elif any(is_lazy(p) for p in module.parameters()):
            raise XDError(f"{name}, a {was} without initialised parameters", "an initialised model", "model(example_input) once")
        elif has_other_hooks(module):
            left.append(LeftAlone(name, was, "it has hooks, which would be lost"))
        elif name == "":
            raise XDError(
                f"a model that is itself a {was}",
                "a model that contains the layers to convert, so that they can be replaced in place",
                "model = nn.Sequential(model)",
            )
        else:
            check_finite(name, module)
            tied = any(owners[id(p)] > 1 for p in module._parameters.values() if p is not None)
            chosen.append(Layer(name, module, kind, own, Uses(), tied))
    return chosen, left


def layers(model: nn.Module, config: XDConfig) -> Iterator[tuple[str, nn.Module]]:
    """Every convertible or converted layer and TorchScript module once; what is inside one is not looked at."""
    seen: set[int] = set()

    def walk(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        if id(module) in seen:
            return
        seen.add(id(module))
        if isinstance(module, Edge):
            if origin_of(module) is not None:
                yield name, module
        elif isinstance(module, torch.jit.ScriptModule) or kind_of(module, name, config) is not None:
            yield name, module
        else:
            for key, child in module.named_children():
                yield from walk(f"{name}.{key}" if name else key, child)

    return walk("", model)


def check_same(name: str, was: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to convert a layer a second time in another way."""
    differing = [key for key in asked if was.get(key) != asked[key]]
    if differing:
        raise XDError(
            f"{name}, which is converted already with {', '.join(f'{key}={was.get(key)!r}' for key in differing)}",
            f"the same settings again, not {', '.join(f'{key}={asked[key]!r}' for key in differing)}",
            "revert_(model) first, or a filter_fn that leaves this layer out",
        )


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
    by_architecture = built.edge.by_architecture() if isinstance(built.edge, Operation) else nullcontext()
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


def count_weights(module: Any) -> int:
    """Of an edge: filters, biases and the like."""
    return sum(p.numel() for p in module.weight_parameters())
