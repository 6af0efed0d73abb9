"""The XD search space over a backbone: every chosen layer becomes an XD-operation that starts out as exactly that layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xdops.convert import weights
from xdops.convert.config import XDConfig
from xdops.convert.edges import GivenBack, Origin, relative_distance
from xdops.convert.kinds import KINDS
from xdops.convert.kinds.kind import Kind, Layer, LeaveAlone, Recipe
from xdops.convert.replace import Built, FilterFn, Space, count_weights, replace_
from xdops.convert.report import ConversionReport
from xdops.convert.uses import ExampleInput, preserved_rng
from xdops.operations import Operation


def convert_(
    model: nn.Module,
    example_input: ExampleInput,
    config: XDConfig = XDConfig(),  # noqa: B008  frozen
    filter_fn: FilterFn | None = None,
) -> ConversionReport:
    """Relax the layers of `model` into XD-operations that compute the same, in place; print what it returns.

    example_input: a tensor, a tuple of positional arguments or a dict of keyword arguments for one run of the model, which tells
    the sizes that each layer sees. filter_fn(name, module) says which layers may be converted.
    """
    return replace_(model, example_input, config, filter_fn, Space(settings, build))


def settings(config: XDConfig) -> dict[str, Any]:
    return {"space": "XD", **config.shape()}


@dataclass
class XDOrigin(Origin):
    """How an operation was made: enough to give its layer back and to compute its start again."""

    module: nn.Module  # the layer that stood here
    source: nn.Module  # what the operation starts as
    recipe: Recipe

    @property
    def kind(self) -> Kind:
        return KINDS[self.recipe.kind]

    @property
    def settings(self) -> dict[str, Any]:
        return settings(self.recipe.config)

    def operation(self, source: nn.Module) -> Operation:
        """The warm start from a source of this shape."""
        with preserved_rng(self.recipe.seed), torch.device("cpu"):  # whatever torch.set_default_device says
            return self.kind.start(source, self.recipe)

    def warm_start(self) -> list[Tensor]:
        """The architecture of the source itself, in the dtype of the conversion."""
        return self.now(self.operation(self.kind.blank(self.source, self.recipe.dtype)))

    def start(self) -> list[Tensor]:
        architecture = self.warm_start()
        perturb_([p for p in architecture if p.requires_grad], self.recipe.config.perturb, self.recipe.seed)
        return architecture

    def now(self, edge: nn.Module) -> list[Tensor]:
        assert isinstance(edge, Operation)
        return [p for _, p in edge.architecture()]

    def give_back(self, edge: nn.Module) -> GivenBack:
        assert isinstance(edge, Operation)
        change = relative_distance(self.now(edge), self.warm_start())
        with edge.settled():
            returned = self.kind.give_back(self.module, self.source, edge)
        notes = ("the learned architecture is lost" if change else "", returned.note)
        return GivenBack(returned.module, returned.put, change, "; ".join(filter(None, notes)))


def build(layer: Layer) -> Built:
    """The operation of one layer."""
    kind, config, like = layer.kind, layer.config, layer.inputs[0]
    if config.causal and not kind.can_be_causal:
        raise LeaveAlone("only convolutions can be causal")
    if config.shift_invariant and not kind.can_be_shift_invariant:
        raise LeaveAlone("only convolutions are converted to shift-invariant operations")
    facts = kind.examine(layer)
    source = kind.source(layer.module, config, facts)
    weight = getattr(source, "weight", None)
    dtype = like.dtype if weight is None else weight.dtype
    sizes = kind.sizes(source, layer.inputs, config)
    recipe = Recipe(kind.name, layer.channels, layer.input_size, sizes, config, layer.seed, dtype, facts)
    origin = XDOrigin(layer.module, source, recipe)
    op = warm_started(origin, like.device)
    kind.check(op, layer)
    finish_(op, origin)
    return Built(op, origin, "XD", op.sizes, op.depth, count_weights(op), kind.note(config))


def warm_started(origin: XDOrigin, device: torch.device) -> Operation:
    """The operation that is the origin's source."""
    return origin.operation(origin.source).to(device)


def finish_(op: Operation, origin: XDOrigin) -> None:
    """Add the noise that the config asks for, and whatever computes the layer's weight."""
    perturb_([*op.arch_parameters()], origin.recipe.config.perturb, origin.recipe.seed)
    if hasattr(origin.module, "weight") and not weights.is_own(origin.module):
        weights.share(origin.module, op)


def restore(module: nn.Module, recipe: Recipe, settings: Mapping[str, Any], device: torch.device) -> tuple[nn.Module, Origin]:
    """The operation that stood for `module` once, made again without an example."""
    origin = XDOrigin(module, KINDS[recipe.kind].source(module, recipe.config, recipe.facts), recipe)
    op = warm_started(origin, device)
    finish_(op, origin)
    return op, origin


def perturb_(parameters: list[Tensor], relative: float, seed: int) -> None:
    """Add noise of relative Euclidean size `relative` to every tensor, the same on every device."""
    if relative == 0:
        return
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in parameters:
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64, device="cpu")
            value = p.to("cpu", torch.float64)
            p.copy_(value + noise * (relative * value.square().mean().sqrt()))
