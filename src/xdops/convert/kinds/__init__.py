"""The layer kinds that can be converted: a new one is one file here and one line in the table."""

from torch import nn

from xdops.convert.config import XDConfig
from xdops.convert.kinds.convolution import Convolution, TransposedConvolution
from xdops.convert.kinds.fourier import FourierLayer
from xdops.convert.kinds.kind import Kind
from xdops.convert.kinds.pool import AveragePool, MaxPool
from xdops.convert.kinds.shortcut import NamedShortcut, Skip

#: By name, in the order in which they are tried.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (Convolution(), TransposedConvolution(), FourierLayer(), AveragePool(), MaxPool(), NamedShortcut(), Skip())
}

_DEFAULT = XDConfig()


def kind_of(module: nn.Module, name: str = "", config: XDConfig = _DEFAULT) -> Kind | None:
    """The kind of a module that has this name in a model; None if it is no layer that can be converted."""
    return next((kind for kind in KINDS.values() if kind.matches(name, module, config)), None)


def describe(module: nn.Module) -> str:
    """A short name for a table."""
    kind = kind_of(module)
    return type(module).__name__ if kind is None else kind.describe(module)
