"""Model surgery, the same for every search space: choose layers, see what they receive, build an edge for each, then swap all."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from xdops.convert.config import XDConfig
from xdops.convert.edges import Edge, Origin, set_origin
from xdops.convert.layers import describe, dimensions, kind_of
from xdops.convert.report import ConversionReport, ConvertedLayer, LeftAlone
from xdops.convert.uses import ExampleInput, Uses, record_uses, undisturbed
from xdops.convert.weights import has_other_hooks
from xdops.errors import XDError
from xdops.operations import XDOperation

FilterFn = Callable[[str, nn.Module], bool]

#: Which setting decides about a kind of layer.
_SWITCH = {
    "conv": "convs", "transposed": "convs", "fourier": "convs", "avg_pool": "pools", "max_pool": "max_pools", "skip": "skips",
}  # fmt: skip


class LeaveAlone(Exception):
    """A layer that cannot be an edge, and why; the conversion goes on without it."""


@dataclass(frozen=True)
class Candidate:
    """A layer to convert: what it is, its own settings, and how the model uses it."""

    name: str
    module: nn.Module
    kind: str  # conv, transposed, fourier, avg_pool, max_pool, skip or shortcut
    config: XDConfig
    uses: Uses
    tied: bool  # its weight is also another module's

    @property
    def inputs(self) -> list[Tensor]:
        return [x for x, _ in self.uses.recorded.values()]

    @property
    def channels(self) -> tuple[int, int]:
        """In and out, the same wherever the layer is used."""
        counts = {(x.shape[1], y.shape[1]) for x, y in self.uses.pairs}
        if len(counts) > 1:
            raise LeaveAlone(f"used with {' and '.join(str(c) for c, _ in sorted(counts))} channels: make it one module per use")
        return counts.pop()

    @property
    def input_size(self) -> tuple[int, ...]:
        """The largest input, dimension by dimension."""
        return tuple(max(sizes) for sizes in zip(*(x.shape[2:] for x in self.inputs), strict=True))


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


Build = Callable[[Candidate], Built]


def replace_(
    model: nn.Module, example_input: ExampleInput, config: XDConfig, filter_fn: FilterFn | None, build: Build
) -> ConversionReport:
    """Put what `build` makes in the place of every chosen layer. Nothing changes before everything is built."""
    config.check_patterns([name for name, _ in model.named_modules()])
    candidates, left = choose(model, config, filter_fn)
    uses = record_uses(model, example_input, {c.name: c.module for c in candidates})
    converted, swaps = [], []
    with undisturbed(model):
        for chosen in candidates:
            candidate = dataclasses.replace(chosen, uses=uses.pop(chosen.name))  # what it saw is needed no longer than this
            try:
                check_uses(candidate)
                candidate.uses.add_random(candidate.module)
                built = build(candidate)
            except LeaveAlone as why:
                left.append(LeftAlone(candidate.name, describe(candidate.module), str(why)))
                continue
            except XDError as error_:
                raise XDError(f"{candidate.name}: {error_.given}", error_.expected, error_.hint) from error_
            swaps.append((candidate.module, built))
            converted.append(row(candidate, built))
    for module, built in swaps:
        set_origin(built.edge, built.origin)
        swap(model, module, built.edge)
    return ConversionReport(tuple(converted), tuple(left))


def choose(model: nn.Module, config: XDConfig, filter_fn: FilterFn | None) -> tuple[list[Candidate], list[LeftAlone]]:
    """The layers that the config and the filter ask for, and those that they do not."""
    chosen, left = [], []
    owners: dict[int, int] = {}
    for module in model.modules():
        for p in module._parameters.values():
            owners[id(p)] = owners.get(id(p), 0) + 1
    for name, module, kind in layers(model, config.shortcuts):
        own = config.at(name)
        was = describe(module)
        if kind != "shortcut" and not getattr(own, _SWITCH[kind]):
            left.append(LeftAlone(name, was, f"the config says {_SWITCH[kind]}=False"))
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
            chosen.append(Candidate(name, module, kind, own, Uses(), tied))
    return chosen, left


def layers(model: nn.Module, shortcuts: tuple[str, ...]) -> Iterator[tuple[str, nn.Module, str]]:
    """Every convertible layer once, with its kind; what is inside of one, or of an edge, is not looked at."""
    seen: set[int] = set()

    def walk(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
        if id(module) in seen or isinstance(module, Edge):
            return
        seen.add(id(module))
        kind = kind_of(module)
        if kind in (None, "skip") and any(fnmatchcase(name, pattern) for pattern in shortcuts) and not [*module.parameters()]:
            kind = "shortcut"  # with parameters it is a projection, whose layers are looked at as any others
        if kind is not None:
            yield name, module, kind
            return
        for key, child in module.named_children():
            yield from walk(f"{name}.{key}" if name else key, child)

    return walk("", model)


def check_uses(candidate: Candidate) -> None:
    """Leave alone what the example does not reach, and what it uses in ways an operation cannot."""
    if candidate.uses.problem:
        raise LeaveAlone(candidate.uses.problem)
    if not candidate.uses.recorded:
        raise LeaveAlone("the example input never reaches it")
    ranks = {x.dim() for x in candidate.inputs}
    if candidate.kind in ("skip", "shortcut"):
        if len(ranks) > 1 or not 3 <= min(ranks) <= 5:
            raise LeaveAlone(f"it sees {' and '.join(map(str, sorted(ranks)))} dimensions, not (batch, channels, 1 to 3 more)")
    elif ranks != {dimensions(candidate.module) + 2}:
        raise LeaveAlone("it sees single examples without a batch dimension")
    if not all(x.is_floating_point() and x.numel() for x in candidate.inputs):
        raise LeaveAlone(f"it sees {candidate.inputs[0].dtype} of shape {tuple(candidate.inputs[0].shape)}, not real numbers")


def largest_error(edge: nn.Module, uses: Uses) -> float:
    """max |edge(x) - y| / max |y| over all positions of the example's inputs and of random ones."""
    worst = 0.0
    for x, y in uses.pairs:
        given = edge(x)
        if given.shape != y.shape:
            return float("inf")
        scale = float(y.abs().max())
        away = float((given - y).abs().max())
        worst = max(worst, away / scale if scale else away)
    return worst


def must_equal(stand_in: nn.Module, candidate: Candidate) -> None:
    """Leave alone what turns out to be something else than its kind of layer, at some input."""
    error = largest_error(stand_in, candidate.uses)
    if error > 3 * torch.finfo(candidate.inputs[0].dtype).eps ** 0.5:
        raise LeaveAlone(f"it is not what its kind of layer would be (relative difference {error:.1e})")


def row(candidate: Candidate, built: Built) -> ConvertedLayer:
    by_architecture = built.edge.by_architecture() if isinstance(built.edge, XDOperation) else nullcontext()
    with by_architecture:  # what its matrices compute, not the layer that may stand in for them
        error = largest_error(built.edge, candidate.uses)
    architecture = sum(p.numel() for _, p in cast(Edge, built.edge).architecture())
    return ConvertedLayer(
        candidate.name, describe(candidate.module), built.became, built.size, built.depth, built.weights, architecture, error,
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
