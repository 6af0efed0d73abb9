"""What a layer kind has to say about its layers: one handler per kind, in the table of `kinds/__init__.py`."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from xdops.convert.config import XDConfig
from xdops.convert.uses import Uses
from xdops.operations import Operation

#: The operation's size per dimension where it must be given, None where the warm start may choose.
Size = tuple[int | None, ...]


class LeaveAlone(Exception):
    """A layer that cannot become an edge, and why; the conversion continues without it."""


@dataclass(frozen=True)
class Layer:
    """A layer to convert: what it is, its own settings, and how the model uses it."""

    name: str
    module: nn.Module
    kind: "Kind"
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

    @property
    def seed(self) -> int:
        """Layers differ, in whatever order they come."""
        return self.config.seed + zlib.crc32(self.name.encode())

    def must_equal(self, stand_in: nn.Module) -> None:
        """Leave alone what turns out to be something else than its kind of layer, at some input."""
        error = self.uses.largest_error(stand_in)
        if error > 3 * torch.finfo(self.inputs[0].dtype).eps ** 0.5:
            raise LeaveAlone(f"it does not compute what layers of its kind do (relative difference {error:.1e})")


@dataclass(frozen=True)
class Recipe:
    """All that makes a layer's operation besides the layer itself: plain data, which a file can hold."""

    kind: str
    channels: tuple[int, int]
    input_size: tuple[int, ...]
    size: Size
    config: XDConfig
    seed: int
    dtype: torch.dtype  # of the conversion, so that a later .to(dtype) is no change
    facts: Mapping[str, Any] = field(default_factory=dict)  # what only the example could tell


@dataclass(frozen=True)
class Window:
    """A layer that sees its input through a window at every output, in terms that every search space understands."""

    takes: Literal["weights", "mean", "maximum", "identity"]  # what becomes of the entries in the window
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]  # padding before the first entry
    padding: tuple[int, ...]  # padding on both sides together
    ceil_mode: bool = False
    count_include_pad: bool = True
    offset: int = 0  # zero channels before those that an identity keeps


@dataclass(frozen=True)
class Returned:
    """A backbone's layer, to be put back in place of its edge by calling `put`, which cannot fail."""

    module: nn.Module
    put: Callable[[], None] = lambda: None
    note: str = ""


class Kind(ABC):
    """The handler of one kind of layer. A conversion calls `matches`, `examine`, `source` and `start`; later `give_back`."""

    name: str  # in files
    noun: str  # in sentences: "the DARTS set has no <noun>"
    switch: str | None = None  # the setting of XDConfig that decides about it
    bases: tuple[type[nn.Module], ...] = ()  # torch's classes
    can_be_causal = False
    can_be_shift_invariant = False

    def matches(self, name: str, module: nn.Module, config: XDConfig) -> bool:
        """Whether the module, which has this name in the model, is a layer of this kind."""
        return isinstance(module, self.bases)

    def switches(self, module: nn.Module) -> tuple[str, ...]:
        """The settings of XDConfig without any of which the module is left alone."""
        return () if self.switch is None else (self.switch,)

    def describe(self, module: nn.Module) -> str:
        """A short name for a table."""
        return type(module).__name__.removeprefix("Parametrized")

    def dimensions(self, module: nn.Module) -> int | None:
        """1, 2 or 3; None if it takes any input."""
        return None

    def examine(self, layer: Layer) -> dict[str, Any]:
        """Leave alone what only looks like this kind. Returns what else the uses tell, as plain data."""
        return {}

    @abstractmethod
    def source(self, module: nn.Module, config: XDConfig, facts: Mapping[str, Any]) -> nn.Module:
        """What the layer is, without subclasses and hooks: what its edge starts as."""

    def window(self, source: nn.Module) -> Window | None:
        """The source as other search spaces see it, if it looks through a window."""
        return None

    def sizes(self, source: nn.Module, inputs: Sequence[Tensor], config: XDConfig) -> Size:
        """The operation's sizes, where they must be given."""
        return (None,) * (inputs[0].dim() - 2)

    @abstractmethod
    def start(self, source: nn.Module, recipe: Recipe) -> Operation:
        """The XD-operation that is `source`, whose weight and bias it shares if it has any."""

    def check(self, op: Operation, layer: Layer) -> None:
        """Leave alone what the operation cannot stand for at all of its uses."""
        return

    def blank(self, source: nn.Module, dtype: torch.dtype) -> nn.Module:
        """A source of the same shape with uninitialised parameters; one without parameters is its own blank."""
        return source

    def note(self, config: XDConfig) -> str:
        """What a user should know about every conversion of this kind."""
        return ""

    @abstractmethod
    def give_back(self, module: nn.Module, source: nn.Module, edge: Operation) -> Returned:
        """The layer with the edge's weights. Changes nothing before `put` is called."""


def base_class(module: nn.Module, bases: Sequence[type[nn.Module]]) -> type[nn.Module]:
    """The one of `bases` whose subclass the module is."""
    return next(base for base in bases if isinstance(module, base))


def has_own_forward(module: nn.Module, bases: Sequence[type[nn.Module]]) -> bool:
    """Whether a subclass computes something of its own."""
    base: Any = base_class(module, bases)
    own: Any = type(module)
    return own.forward is not base.forward or getattr(own, "_conv_forward", 0) is not getattr(base, "_conv_forward", 0)


def each(value: Any, dims: int) -> tuple[int, ...]:
    """One integer per dimension, from torch's int or tuple."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * dims


def describe_window(module: nn.Module, dims: int, usual_stride: int | tuple[int, ...]) -> str:
    """The class with its kernel, and whatever is not as usual."""
    kernel = each(module.kernel_size, dims)
    text = f"{type(module).__name__.removeprefix('Parametrized')} {'x'.join(map(str, kernel))}"
    for what, usual in (("stride", usual_stride), ("dilation", 1), ("groups", 1)):
        value: Any = getattr(module, what, usual)
        if each(value, dims) != each(usual, dims):
            text += f" {what} {value if isinstance(value, int) or len(set(value)) > 1 else value[0]}"
    return text
