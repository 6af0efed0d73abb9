"""Skip connections: identities, and modules without parameters that subsample and zero-pad channels ("option A")."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xdops.convert.config import XDConfig
from xdops.convert.kinds.free import filter_sizes, with_filters
from xdops.convert.kinds.kind import Kind, Layer, LeaveAlone, Recipe, Returned, Window
from xdops.operations import Operation, XDOperation
from xdops.operations.axes import Axis
from xdops.operations.catalogue import named


class Shortcut(nn.Module):
    """A skip connection, perhaps between unlike shapes: every stride-th entry, `offset` zero channels before and more after."""

    def __init__(self, stride: Sequence[int], in_channels: int, out_channels: int, offset: int) -> None:
        super().__init__()
        self.stride, self.in_channels, self.out_channels, self.offset = tuple(stride), in_channels, out_channels, offset

    def forward(self, input: Tensor) -> Tensor:
        x = input
        for dim, s in enumerate(self.stride, start=2):
            x = x[(slice(None),) * dim + (slice(None, None, s),)]
        after = self.out_channels - self.in_channels - self.offset
        return F.pad(x, (*(0, 0) * len(self.stride), self.offset, after))

    def extra_repr(self) -> str:
        return f"{self.in_channels} -> {self.out_channels}, stride={self.stride}"


class Skip(Kind):
    """nn.Identity and empty nn.Sequential."""

    name = "skip"
    noun = "skip connection"
    switch: str | None = "skips"

    def matches(self, name: str, module: nn.Module, config: XDConfig) -> bool:
        return isinstance(module, nn.Identity) or (type(module) is nn.Sequential and len(module) == 0)

    def examine(self, layer: Layer) -> dict[str, Any]:
        """The stride and channel padding by which the module does what it does to the recorded inputs."""
        c_in, c_out = layer.channels
        x, y = layer.uses.pairs[0]
        stride = [-(-m // out) for m, out in zip(x.shape[2:], y.shape[2:], strict=True)] if x.dim() == y.dim() else []
        for offset in sorted(range(c_out - c_in + 1), key=lambda o: abs(o - (c_out - c_in) // 2)):
            found = Shortcut(stride, c_in, c_out, offset)
            if stride and all(torch.equal(found(x), y) for x, y in layer.uses.pairs):
                return {"stride": stride, "in_channels": c_in, "out_channels": c_out, "offset": offset}
        raise LeaveAlone("it is not a subsampling with zero-padded channels")

    def source(self, module: nn.Module, config: XDConfig, facts: Mapping[str, Any]) -> nn.Module:
        return Shortcut(**facts)

    def window(self, source: Any) -> Window:
        one, none = (1,) * len(source.stride), (0,) * len(source.stride)
        return Window("identity", one, source.stride, one, none, none, offset=source.offset)

    def start(self, source: Any, recipe: Recipe) -> XDOperation:
        op = named.skip(recipe.channels[0], recipe.input_size, filter_sizes(recipe), recipe.dtype, recipe.config.domain)
        axes = [Axis(a.size, stride=s) for a, s in zip(op.axes, source.stride, strict=True)]
        return with_filters(op, axes, source.offset, recipe)

    def give_back(self, module: nn.Module, source: nn.Module, edge: Operation) -> Returned:
        return Returned(module)


class NamedShortcut(Skip):
    """Modules that the config names; one with parameters is a projection, whose layers are looked at as any others."""

    name = "shortcut"
    switch = None

    def matches(self, name: str, module: nn.Module, config: XDConfig) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in config.shortcuts) and not [*module.parameters()]
