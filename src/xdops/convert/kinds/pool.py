"""Pools: average pools are XD-operations (claim 3 of the paper); a max pool starts as the average pool of the same size."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from xdops.convert.config import XDConfig
from xdops.convert.kinds.free import filter_sizes, with_filters
from xdops.convert.kinds.kind import Kind, Layer, LeaveAlone, Recipe, Returned, Window, describe_window, each, has_own_forward
from xdops.operations import Operation, XDOperation
from xdops.operations.catalogue import named


class AveragePool(Kind):
    name = "avg_pool"
    noun = "average pool"
    switch = "pools"
    bases: tuple[type[nn.Module], ...] = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)

    def dimensions(self, module: nn.Module) -> int:
        return next(dims for dims, base in enumerate(self.bases, start=1) if isinstance(module, base))

    def describe(self, module: nn.Module) -> str:
        dims = self.dimensions(module)
        return describe_window(module, dims, each(module.kernel_size, dims))

    def examine(self, layer: Layer) -> dict[str, Any]:
        if has_own_forward(layer.module, self.bases):
            raise LeaveAlone("its class has a forward of its own")
        if getattr(layer.module, "divisor_override", None) is not None:
            raise LeaveAlone("it has a divisor_override")
        return {}

    def source(self, module: nn.Module, config: XDConfig, facts: Mapping[str, Any]) -> nn.Module:
        return module

    def window(self, source: nn.Module) -> Window:
        dims = self.dimensions(source)
        before = each(source.padding, dims)
        return Window(
            "mean",
            each(source.kernel_size, dims),
            each(source.stride, dims),
            each(getattr(source, "dilation", 1), dims),
            before,
            tuple(2 * p for p in before),
            bool(source.ceil_mode),
            bool(getattr(source, "count_include_pad", True)),
        )

    def start(self, source: nn.Module, recipe: Recipe) -> XDOperation:
        window = self.window(source)
        op = named.average_pool(
            recipe.channels[0],
            window.kernel,
            recipe.input_size,
            stride=window.stride,
            dilation=window.dilation,
            padding=window.before,
            ceil_mode=window.ceil_mode,
            count_include_pad=window.count_include_pad,
            kernel_size=filter_sizes(recipe),
            dtype=recipe.dtype,
            domain=recipe.config.domain,
        )
        return with_filters(op, op.axes, 0, recipe)

    def check(self, op: Operation, layer: Layer) -> None:
        """Where fewer entries count at the border, one operation cannot serve inputs of several sizes."""
        layer.must_equal(op)

    def give_back(self, module: nn.Module, source: nn.Module, edge: Operation) -> Returned:
        return Returned(module)


class MaxPool(AveragePool):
    name = "max_pool"
    noun = "max pool"
    switch = "max_pools"
    bases: tuple[type[nn.Module], ...] = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)

    def window(self, source: nn.Module) -> Window:
        return replace(super().window(source), takes="maximum")

    def check(self, op: Operation, layer: Layer) -> None:
        if math.isinf(layer.uses.largest_error(op)):
            raise LeaveAlone("it would start as an average pool, and that is a different one at each size that it sees")

    def note(self, config: XDConfig) -> str:
        return "starts as the average pool of the same size"
