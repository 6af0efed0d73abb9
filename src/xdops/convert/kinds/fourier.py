"""The layers of Fourier neural operators: complex weights at the lowest frequencies (Appendix A, the remark to claim 6)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils import skip_init

from xdops.convert import weights
from xdops.convert.config import XDConfig
from xdops.convert.kinds.kind import Kind, Layer, LeaveAlone, Recipe, Returned, has_own_forward
from xdops.convert.report import by
from xdops.operations import Operation, XDOperation
from xdops.operations.catalogue.fourier import SpectralConv, from_filters, from_spectral_conv


class FourierLayer(Kind):
    name = "fourier"
    noun = "Fourier layer"
    switch = "convs"
    bases = (SpectralConv,)

    def dimensions(self, module: nn.Module) -> int:
        return len(module.modes)  # type: ignore[arg-type]

    def describe(self, module: Any) -> str:
        return f"{super().describe(module)} {by(module.modes)} modes"

    def examine(self, layer: Layer) -> dict[str, Any]:
        if has_own_forward(layer.module, self.bases):
            raise LeaveAlone("its class has a forward of its own")
        if layer.tied or not weights.is_own(layer.module):
            raise LeaveAlone("its weight is shared or computed, and cannot be arranged as an operation's filters")
        grids = {tuple(x.shape[2:]) for x in layer.inputs}
        if len(grids) > 1:
            raise LeaveAlone(
                f"used on grids of {' and '.join(map(by, sorted(grids)))} points, on each of which it is another operation"
            )
        return {}

    def source(self, module: nn.Module, config: XDConfig, facts: Mapping[str, Any]) -> nn.Module:
        return module

    def start(self, source: Any, recipe: Recipe) -> XDOperation:
        config = recipe.config
        return from_spectral_conv(source, recipe.input_size, config.depth, config.b, config.C, config.trained)

    def blank(self, source: Any, dtype: torch.dtype) -> nn.Module:
        where = source.weight.device
        return skip_init(SpectralConv, source.in_channels, source.out_channels, source.modes, device=where, dtype=dtype)

    def give_back(self, module: Any, source: nn.Module, edge: Operation) -> Returned:
        weight = from_filters(weights.value(edge, "weight"), module.modes)

        def put() -> None:
            module.weight.data = weight

        return Returned(module, put)
