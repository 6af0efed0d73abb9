"""Edges: the modules that a search space puts where a backbone's layers were, whichever space it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from xdops.convert.kinds.kind import Recipe
from xdops.errors import XDError

_ORIGIN = "_xdops_origin"
_EDGE = "_xdops_edge"


@runtime_checkable
class Edge(Protocol):
    """A module with architecture parameters: an XDOperation, or an edge of another space."""

    def architecture(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every architecture parameter, trained or fixed, with its name."""
        ...

    def arch_parameters(self) -> list[nn.Parameter]:
        """Those that learn."""
        ...


@dataclass(frozen=True)
class GivenBack:
    """A backbone's layer, ready to take its edge's place: `put` gives it the edge's weights, and cannot fail."""

    module: nn.Module
    put: Callable[[], None]
    change: float  # relative distance of the architecture from the layer's own: what is lost
    note: str


class Origin(ABC):
    """Where an edge comes from. Kept beside the edge, outside of its state dict: the start is computed again when asked for.

    A checkpoint thus holds no second copy of the architecture, and a freshly converted model that loads it knows the start too.
    """

    module: nn.Module  # the very module that stood here
    recipe: Recipe

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the edge was asked to be, the name of its search space included."""

    @abstractmethod
    def start(self) -> list[Tensor]:
        """The architecture that the edge started with."""

    @abstractmethod
    def now(self, edge: nn.Module) -> list[Tensor]:
        """The edge's architecture in the form of `start`."""

    @abstractmethod
    def give_back(self, edge: nn.Module) -> GivenBack:
        """The backbone's layer. Leaves edge and layer as they are."""


def set_origin(edge: nn.Module, origin: Origin) -> None:
    edge.__dict__[_ORIGIN] = origin  # not an attribute of the module: the original layer must not become a submodule


def origin_of(edge: nn.Module) -> Origin | None:
    return edge.__dict__.get(_ORIGIN)


def keep_edge(merged: nn.Module, edge: nn.Module) -> None:
    """Remember the edge in whose place a merged module stands, outside of the module's state."""
    merged.__dict__[_EDGE] = edge


def kept_edge(module: nn.Module) -> nn.Module | None:
    return module.__dict__.get(_EDGE)


def check_module(model: object) -> None:
    """Refuse what is no model, a class instead of an object included."""
    if not isinstance(model, nn.Module):
        given = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise XDError(f"{given} as the model", "an nn.Module", "an object: model = Network()")


def edges(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every edge of the model with its name."""
    check_module(model)
    for name, module in model.named_modules():
        if isinstance(module, Edge):
            yield name, cast(nn.Module, module)


def arch_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The architecture parameters that learn, each once."""
    found = {id(p): p for _, edge in edges(model) for p in cast(Edge, edge).arch_parameters()}
    return list(found.values())


def weight_parameters(model: nn.Module) -> list[nn.Parameter]:
    """All other parameters of the model: filters, biases, norms, linear layers."""
    architecture = {id(p) for _, edge in edges(model) for _, p in cast(Edge, edge).architecture()}
    return [p for p in model.parameters() if id(p) not in architecture]


def novelty(model: nn.Module) -> dict[str, float]:
    """Relative Euclidean distance |a - a_0| / |a_0| of each converted layer's architecture a from its start a_0, by name."""
    found = {}
    for name, edge in edges(model):
        origin = origin_of(edge)
        if origin is not None:
            found[name] = relative_distance(origin.now(edge), origin.start())
    return found


@torch.no_grad()
def relative_distance(now: list[Tensor], start: list[Tensor]) -> float:
    """|now - start| / |start| over all tensors together, so that single ones may be zero. In the dtype that `now` has."""
    now = [a.full_tensor() if hasattr(a, "full_tensor") else a for a in now]  # of a sharded model
    away = sum(float((a - s.to(a)).double().square().sum()) for a, s in zip(now, start, strict=True))
    norm = sum(float(s.double().square().sum()) for s in start)
    return (away / norm) ** 0.5 if norm else away**0.5
