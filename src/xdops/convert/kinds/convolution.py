"""Convolutions and transposed convolutions: their own weights become the operation's filters, perhaps with zeros around them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from xdops.convert import weights
from xdops.convert.config import XDConfig
from xdops.convert.kinds.kind import (
    Kind,
    Layer,
    LeaveAlone,
    Recipe,
    Returned,
    Size,
    Window,
    base_class,
    describe_window,
    has_own_forward,
)
from xdops.convert.report import by
from xdops.errors import XDError
from xdops.operations import Operation, shift_invariant_from_conv
from xdops.operations.domains import halved
from xdops.operations.warmstart import conv_geometry, from_conv


class Convolution(Kind):
    name = "conv"
    noun = "convolution"
    switch = "convs"
    bases: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    can_be_causal = True
    can_be_shift_invariant = True

    def dimensions(self, module: nn.Module) -> int:
        return len(module.kernel_size)  # type: ignore[arg-type]

    def switches(self, module: nn.Module) -> tuple[str, ...]:
        pointwise = all(k == 1 for k in module.kernel_size)  # type: ignore[union-attr]
        return ("convs", "pointwise") if pointwise else ("convs",)

    def describe(self, module: nn.Module) -> str:
        return describe_window(module, self.dimensions(module), 1)

    def examine(self, layer: Layer) -> dict[str, Any]:
        if not weights.can_be_shared(layer.module):
            raise LeaveAlone("its weight is neither a parameter nor a buffer: something sets it from outside")
        if has_own_forward(layer.module, self.bases):
            layer.must_equal(self.plain(layer.module))
        if self._grows(layer.module, layer.config):
            self._check_growth(layer)
        return {}

    def source(self, module: nn.Module, config: XDConfig, facts: Mapping[str, Any]) -> nn.Module:
        return self.grown(module, config.kernel_size) if self._grows(module, config) else self.plain(module)

    def window(self, source: Any) -> Window | None:
        span = [d * (k - 1) for k, d in zip(source.kernel_size, source.dilation, strict=True)]
        if source.padding == "same":
            before, both = tuple(s // 2 for s in span), tuple(span)
        else:
            before = (0,) * len(span) if source.padding == "valid" else source.padding
            both = tuple(2 * p for p in before)
        return Window("weights", source.kernel_size, source.stride, source.dilation, before, both)

    def sizes(self, source: nn.Module, inputs: Sequence[Tensor], config: XDConfig) -> Size:
        """A circular axis that sees several lengths can be the period of none of them."""
        lengths = [set(seen) for seen in zip(*(x.shape[2:] for x in inputs), strict=True)]
        if config.boundary == "wrap" or source.padding_mode != "circular":
            return (None,) * len(lengths)
        padded, half = _PaddedExplicitly(source), halved(config.domain, len(lengths))
        return tuple(
            conv_geometry(padded, i, max(seen), config.size, False, half[i])[0].size if len(seen) > 1 else None
            for i, seen in enumerate(lengths)
        )

    def start(self, source: nn.Module, recipe: Recipe) -> Operation:
        config = recipe.config
        if config.shift_invariant:
            return shift_invariant_from_conv(
                source, config.span, config.depth, config.causal, b=config.b, C=config.C, trained=config.trained
            )
        return from_conv(
            source,
            recipe.input_size,
            depth=config.depth,
            size=tuple(n or config.size for n in recipe.size),
            boundary=config.boundary,
            b=config.b,
            C=config.C,
            trained=config.trained,
            causal=config.causal,
            domain=config.domain,
        )

    def blank(self, source: nn.Module, dtype: torch.dtype) -> nn.Module:
        return self._shaped_as(source, None, dtype)

    def note(self, config: XDConfig) -> str:
        return "wraps around at the boundary, where the error is" if config.boundary == "wrap" else ""

    def give_back(self, module: Any, source: Any, edge: Operation) -> Returned:
        if source.kernel_size == module.kernel_size:
            return Returned(module, lambda: weights.move(edge, module))
        weight = weights.value(edge, "weight")
        kept = centre(weight, module.kernel_size)
        if weight.count_nonzero() > kept.count_nonzero():  # taps around the original ones have learned
            least = min(new for new, old in zip(source.kernel_size, module.kernel_size, strict=True) if new > old)

            def put_grown() -> None:
                _remember_growth(source, max(least, grown_to(module) or 0))
                weights.move(edge, source)

            return Returned(source, put_grown, f"its filters stay grown to {by(edge.kernel_size)}")

        def put() -> None:
            module.weight.data = kept.clone()
            weights.move(edge, module, ("bias",))

        return Returned(module, put)

    def plain(self, module: Any) -> Any:
        """A torch convolution with the module's own parameters, or with fixed copies of what is not a parameter."""
        conv = self._shaped_as(module)
        for name in ("weight", "bias"):
            value = getattr(module, name)
            own = value is None or isinstance(value, nn.Parameter)
            setattr(conv, name, value if own else nn.Parameter(value.detach().clone(), requires_grad=False))
        return conv

    def _shaped_as(self, conv: Any, kernel_size: int | None = None, dtype: torch.dtype | None = None) -> Any:
        """A torch convolution of the same shape with uninitialised parameters, its kernel and padding grown alike on both sides so
        that it is at least `kernel_size`: with zeros as the new taps it is the same function."""
        growth = [max(0, math.ceil(((kernel_size or 1) - k) / 2)) for k in conv.kernel_size]
        padding = conv.padding
        if padding != "same":
            old = (0,) * len(growth) if padding == "valid" else padding
            padding = tuple(p + g * d for p, g, d in zip(old, growth, conv.dilation, strict=True))
        like = weights.value(conv, "weight")
        return skip_init(
            base_class(conv, self.bases),
            conv.in_channels,
            conv.out_channels,
            tuple(k + 2 * g for k, g in zip(conv.kernel_size, growth, strict=True)),
            stride=conv.stride,
            padding=padding,
            dilation=conv.dilation,
            groups=conv.groups,
            bias=conv.bias is not None,
            padding_mode=conv.padding_mode,
            dtype=dtype or like.dtype,
            device=like.device,
            **self._more_options(conv),
        )

    def _more_options(self, conv: Any) -> dict[str, Any]:
        return {}

    def _grows(self, module: Any, config: XDConfig) -> bool:
        return any(k < (config.kernel_size or 1) for k in module.kernel_size)

    def _check_growth(self, layer: Layer) -> None:
        """Refuse to grow filters that are not the layer's own, and padding that the inputs have no room for."""
        hint = f'overrides={{"{layer.name}": {{"kernel_size": None}}}}'
        if layer.tied or not weights.is_own(layer.module):
            why = "is shared with another module" if layer.tied else "is not its own parameter (weight_norm, spectral_norm, ...)"
            raise XDError(
                f"kernel_size={layer.config.kernel_size} for a layer whose weight {why}",
                "a weight that is the layer's own parameter, so that it can grow",
                hint,
            )
        conv = self._shaped_as(layer.module, layer.config.kernel_size)
        shortest = [min(seen) for seen in zip(*(x.shape[2:] for x in layer.inputs), strict=True)]
        room = {"reflect": 1, "circular": 0}.get(conv.padding_mode)
        padding = conv._reversed_padding_repeated_twice[::-2]  # also where it is "same"
        if room is not None and any(p > m - room for p, m in zip(padding, shortest, strict=True)):
            raise XDError(
                f"kernel_size={layer.config.kernel_size} for inputs of {by(shortest)} with {conv.padding_mode} padding",
                f"inputs large enough for padding {by(padding)}",
                hint,
            )

    def grown(self, module: Any, kernel_size: int | None) -> Any:
        """The convolution with zeros around its filters."""
        conv = self._shaped_as(module, kernel_size)
        with torch.no_grad():
            conv.weight.zero_()
            centre(conv.weight, module.kernel_size).copy_(module.weight)
        conv.weight.requires_grad_(module.weight.requires_grad)
        conv.bias = module.bias
        return conv


class TransposedConvolution(Convolution):
    name = "transposed"
    noun = "transposed convolution"
    bases = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    can_be_causal = False
    can_be_shift_invariant = False

    def window(self, source: Any) -> Window | None:
        return None

    def _more_options(self, conv: Any) -> dict[str, Any]:
        return {"output_padding": conv.output_padding}


_GROWN = "_xdops_grown"


def _remember_growth(conv: nn.Module, kernel_size: int) -> None:
    conv.__dict__[_GROWN] = kernel_size


def grown_to(module: nn.Module) -> int | None:
    """The kernel size to which a layer that was given back has grown; None for the backbone's own layers."""
    return module.__dict__.get(_GROWN)


def grow(module: nn.Module, kernel_size: int) -> nn.Module:
    """A backbone's layer as `revert_` gave it back grown."""
    kind = next((k for k in (Convolution(), TransposedConvolution()) if isinstance(module, k.bases)), None)
    if kind is None:
        raise XDError(f"a {type(module).__name__} whose filters have grown", "a convolution", "the backbone that was saved")
    conv: nn.Module = kind.grown(module, kernel_size)
    _remember_growth(conv, kernel_size)
    return conv


class _PaddedExplicitly:
    """A convolution's geometry with its circular padding taken as explicit padding."""

    padding_mode = "explicit"

    def __init__(self, conv: nn.Module) -> None:
        self.kernel_size, self.stride, self.dilation, self.padding = conv.kernel_size, conv.stride, conv.dilation, conv.padding


def centre(grown: Tensor, kernel: Sequence[int]) -> Tensor:
    """The middle taps of grown filters, as a view."""
    for dim, k in enumerate(kernel, start=2):
        grown = grown.narrow(dim, (grown.shape[dim] - k) // 2, k)
    return grown
