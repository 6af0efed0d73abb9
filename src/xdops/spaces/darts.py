"""The relaxed discrete space over a backbone: every chosen layer becomes a mixture of the DARTS operations (paper, section 4)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor, nn

from xdops.convert.config import XDConfig
from xdops.convert.edges import Origin, relative_distance
from xdops.convert.layers import Shortcut, each
from xdops.convert.replace import Built, Candidate, FilterFn, LeaveAlone, count, replace_
from xdops.convert.report import ConversionReport
from xdops.convert.uses import ExampleInput, preserved_rng
from xdops.convert.weights import is_computed
from xdops.convert.xd import source_of
from xdops.errors import XDError
from xdops.spaces.edge import OPERATIONS, DartsEdge, start_logits
from xdops.spaces.grid import GridAxis, layer_axes

#: Width and dilation of the convolutions, in the order in which a backbone's layer is looked for among them.
_CONVS = {"conv_3": (3, 1), "dil_conv_3": (3, 2), "conv_5": (5, 1), "dil_conv_5": (5, 2)}


def darts_(
    model: nn.Module,
    example_input: ExampleInput,
    config: XDConfig = XDConfig(),  # noqa: B008  frozen
    perturb: float = 0.1,
    filter_fn: FilterFn | None = None,
) -> ConversionReport:
    """Relax the layers of `model` into mixtures of the DARTS operations, in place.

    The config chooses layers as it does for `convert_`, and says `causal` and `seed`. The backbone's own operation, or the closest
    of the set, starts with weight 1 - perturb, each of the others with perturb/7: 0.875 is uniform; at 0 nothing else is there.
    """
    if not 0 <= perturb <= 1:
        raise XDError(f"perturb={perturb}", "a number from 0 (the backbone) to 0.875 (uniform) or 1", "perturb=0.1")
    return replace_(model, example_input, config, filter_fn, partial(build, perturb=perturb))


@dataclass
class DartsOrigin(Origin):
    """Which operation of the set the layer was, and where its taps are in the shared kernel."""

    module: nn.Module
    own: str
    perturb: float
    taps: "Taps | None"  # of a convolution

    def start(self) -> list[Tensor]:
        return [start_logits(mixture(self.own, self.perturb)).double().softmax(0)]

    def now(self, edge: nn.Module) -> list[Tensor]:
        assert isinstance(edge, DartsEdge)
        return [edge.logits.detach().double().softmax(0)]

    def give_back(self, edge: nn.Module) -> tuple[nn.Module, float, str]:
        assert isinstance(edge, DartsEdge)
        change = relative_distance(self.now(edge), replace(self, perturb=0.0).start())
        note = "" if change == 0 else "all but its own operation is lost"
        if self.taps is not None:
            module, shared_weight = cast(Any, self.module), cast(Any, edge.weight.detach())
            weight: Any = module.weight.detach().clone().to(edge.weight)
            for layer, shared in self.taps:
                weight[:, :, *layer] = shared_weight[:, :, *shared]
            module.weight.data = weight
            module.bias = edge.bias
        return self.module, change, note


Taps = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # (tap of the layer, tap of the 5-kernel) pairs


def mixture(own: str, perturb: float) -> Tensor:
    """1 - perturb on one operation, the rest even."""
    others = perturb / (len(OPERATIONS) - 1)
    return torch.tensor([1 - perturb if name == own else others for name in OPERATIONS], dtype=torch.float64)


def build(candidate: Candidate, perturb: float) -> Built:
    """The edge of one layer."""
    module, config, kind = candidate.module, candidate.config, candidate.kind
    if kind in ("transposed", "fourier"):
        raise LeaveAlone(f"the DARTS set has no {'transposed convolution' if kind == 'transposed' else 'Fourier layer'}")
    if kind == "conv" and (candidate.tied or is_computed(module)):
        raise LeaveAlone("its weight is shared or computed, and cannot be part of a larger kernel")
    source: Any = source_of(candidate, grow=False)
    dims = candidate.inputs[0].dim() - 2
    taps, note, bias, groups = None, "", None, 1
    if kind == "conv":
        own, taps, note = closest_conv(source, config.causal)
        weight = source.weight.new_zeros(*source.weight.shape[:2], *(5,) * dims)
        for layer, shared in taps:
            weight[:, :, *shared] = source.weight.detach()[:, :, *layer]
        bias, groups = source.bias, source.groups
        axes = layer_axes(source, dims, config.causal)
    else:
        own, axes, note = parameter_free(source, kind, dims, config.causal)
        weight = new_weight(candidate, dims)
    edge = DartsEdge(
        axes,
        weight,
        bias,
        groups,
        getattr(source, "padding_mode", "zeros"),
        bool(getattr(source, "count_include_pad", True)),
        config.causal,
        mixture(own, perturb),
    ).to(candidate.inputs[0].device)
    if kind == "conv":
        edge.weight.requires_grad_(source.weight.requires_grad)
    return Built(edge, DartsOrigin(module, own, perturb, taps), "DARTS", candidate.input_size, None, count(edge), note)


def parameter_free(source: Any, kind: str, dims: int, causal: bool) -> tuple[str, list[GridAxis], str]:
    """Operation, grid and note of a pool or shortcut."""
    if isinstance(source, Shortcut):
        centred = source.offset == (source.out_channels - source.in_channels) // 2
        axes = [GridAxis(s, 0, -1) for s in source.stride]
        return "identity", axes, "" if centred else "closest operation: identity, channels padded alike on both sides"
    own = "avg_pool_3" if kind == "avg_pool" else "max_pool_3"
    same = set(each(source.kernel_size, dims)) == {3} and set(each(getattr(source, "dilation", 1), dims)) == {1}
    return own, layer_axes(source, dims, causal), "" if same else f"closest operation: {own}"


def new_weight(candidate: Candidate, dims: int) -> Tensor:
    """Filters for a layer that had none, as torch's convolutions start."""
    c_in, c_out = candidate.channels
    with preserved_rng(candidate.config.seed + zlib.crc32(candidate.name.encode())):
        weight = torch.empty(c_out, c_in, *(5,) * dims, dtype=candidate.inputs[0].dtype)
        return nn.init.kaiming_uniform_(weight, a=5**0.5)


def closest_conv(conv: Any, causal: bool) -> tuple[str, Taps, str]:
    """The operation of the set that a convolution is, or the closest, and where its taps are in the 5-kernel."""
    layer = list(zip(conv.kernel_size, conv.dilation, strict=True))
    for name, (width, dilation) in _CONVS.items():
        found = [places(k, d, width, dilation, causal) for k, d in layer]
        if all(place is not None for place in found):
            return name, pair(found, [0] * len(layer)), ""
    width, dilation = 3 if max(conv.kernel_size) <= 3 else 5, 2 if any(k > 1 and d > 1 for k, d in layer) else 1
    name = next(name for name, shape in _CONVS.items() if shape == (width, dilation))
    kept = [min(k, width) for k in conv.kernel_size]
    skipped = [(k - w) if causal else (k - w) // 2 for k, w in zip(conv.kernel_size, kept, strict=True)]
    found = [places(k, 1, width, 1, causal) for k in kept]
    return name, pair(found, skipped), f"closest operation: {name}"


def places(kernel: int, step: int, width: int, dilation: int, causal: bool) -> list[int] | None:
    """Where taps `step` apart are in the 5-kernel, read as `width` taps `dilation` apart; None if they are not all there."""
    span = step * (kernel - 1)
    anchor, place = (4, span) if causal else (2, span // 2)
    indices = []
    for j in range(kernel):
        away = j * step - place
        index = away // dilation + anchor
        inside = (5 - width if causal else (5 - width) // 2) <= index < (5 if causal else (5 + width) // 2)
        if away % dilation or not inside:
            return None
        indices.append(index)
    return indices


def pair(found: Sequence[list[int] | None], skipped: Sequence[int]) -> Taps:
    """All combinations over dimensions of (tap of the layer, tap of the 5-kernel)."""
    per_dimension = [[(j + skip, i) for j, i in enumerate(place or ())] for place, skip in zip(found, skipped, strict=True)]
    return tuple((tuple(j for j, _ in point), tuple(i for _, i in point)) for point in product(*per_dimension))
