"""The relaxed discrete space over a backbone: every chosen layer becomes a mixture of the DARTS operations (paper, section 4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from xdops.arguments import check
from xdops.convert import weights
from xdops.convert.config import XDConfig
from xdops.convert.edges import GivenBack, Origin, check_module, relative_distance
from xdops.convert.kinds import KINDS
from xdops.convert.kinds.kind import Layer, LeaveAlone, Recipe, Window
from xdops.convert.replace import Built, FilterFn, Space, count_weights, replace_
from xdops.convert.report import ConversionReport
from xdops.convert.uses import ExampleInput, preserved_rng
from xdops.errors import XDError
from xdops.spaces.edge import OPERATIONS, DartsEdge, start_logits
from xdops.spaces.grid import layer_axes

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
    check("perturb", perturb, float, "darts_")
    if not 0 <= perturb <= 1:
        raise XDError(f"perturb={perturb}", "a number from 0 (the backbone) to 0.875 (uniform) or 1", "perturb=0.1")
    space = Space(partial(settings, perturb=perturb), partial(build, perturb=perturb))
    return replace_(model, example_input, config, filter_fn, space)


@torch.no_grad()
def discretize_(model: nn.Module) -> dict[str, str]:
    """Keep the strongest operation of every mixture, alone and for good, in place; returns which, by layer.

    This rounds the relaxed space to a network of the discrete one. The weights stay as they are: train them again, or not.
    """
    check_module(model)
    chosen = {}
    for name, edge in model.named_modules():
        if isinstance(edge, DartsEdge):
            chosen[name] = OPERATIONS[int(edge.logits.argmax())]
            edge.logits.copy_(start_logits(mixture(chosen[name], 0.0)))
            edge.logits.requires_grad_(False)
    if not chosen:
        raise XDError("a model without mixtures of the DARTS operations", "one that darts_ has relaxed", "darts_(model, example)")
    return chosen


def settings(config: XDConfig, perturb: float) -> dict[str, Any]:
    return {"space": "DARTS", "perturb": perturb, "causal": config.causal, "seed": config.seed}


TapPairs = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # (tap of the layer, tap of the 5-kernel) pairs


@dataclass
class DartsOrigin(Origin):
    """How an edge was made: which operation of the set the layer was, and where its taps are in the shared kernel."""

    module: nn.Module
    recipe: Recipe
    perturb: float
    own: str
    taps: TapPairs | None  # of a convolution

    @property
    def settings(self) -> dict[str, Any]:
        return settings(self.recipe.config, self.perturb)

    def start(self) -> list[Tensor]:
        return [start_logits(mixture(self.own, self.perturb)).double().softmax(0)]

    def now(self, edge: nn.Module) -> list[Tensor]:
        assert isinstance(edge, DartsEdge)
        return [edge.logits.detach().double().softmax(0)]

    def give_back(self, edge: nn.Module) -> GivenBack:
        assert isinstance(edge, DartsEdge)
        change = relative_distance(self.now(edge), replace(self, perturb=0.0).start())
        note = "" if change == 0 else "all but its own operation is lost"
        return GivenBack(self.module, self._put(edge), change, note)

    def _put(self, edge: DartsEdge) -> Callable[[], None]:
        if self.taps is None:
            return lambda: None
        module: Any = self.module
        shared_weight: Any = weights.value(edge, "weight")
        weight: Any = module.weight.detach().clone().to(shared_weight)
        for layer, shared in self.taps:
            weight[:, :, *layer] = shared_weight[:, :, *shared]

        def put() -> None:
            module.weight.data = weight
            weights.move(edge, module, ("bias",))

        return put


def mixture(own: str, perturb: float) -> Tensor:
    """1 - perturb on one operation, the rest even."""
    others = perturb / (len(OPERATIONS) - 1)
    return torch.tensor([1 - perturb if name == own else others for name in OPERATIONS], dtype=torch.float64)


def build(layer: Layer, perturb: float) -> Built:
    """The edge of one layer."""
    layer = replace(layer, config=replace(layer.config, kernel_size=None))  # all filters are of size 5 here
    facts = layer.kind.examine(layer)
    like, sizes = layer.inputs[0], (None,) * len(layer.input_size)
    recipe = Recipe(layer.kind.name, layer.channels, layer.input_size, sizes, layer.config, layer.seed, like.dtype, facts)
    if layer.tied:
        raise LeaveAlone(_NOT_OWN)
    edge, origin, note = make_edge(layer.module, recipe, perturb, like.device)
    return Built(edge, origin, "DARTS", layer.input_size, None, count_weights(edge), note)


_NOT_OWN = "its weight is shared or computed, and cannot be part of a larger kernel"


def make_edge(module: nn.Module, recipe: Recipe, perturb: float, device: torch.device) -> tuple[DartsEdge, DartsOrigin, str]:
    """The edge that stands for `module`, and a note if the set has only something like it."""
    kind, causal = KINDS[recipe.kind], recipe.config.causal
    source: Any = kind.source(module, recipe.config, recipe.facts)
    window = kind.window(source)
    if window is None:
        raise LeaveAlone(f"the DARTS set has no {kind.noun}")
    taps, bias, groups = None, None, 1
    if window.takes == "weights":
        if not weights.is_own(module):
            raise LeaveAlone(_NOT_OWN)
        own, taps, note = closest_conv(window, causal)
        weight = source.weight.new_zeros(*source.weight.shape[:2], *(5,) * len(window.kernel))
        for layer, shared in taps:
            weight[:, :, *shared] = source.weight.detach()[:, :, *layer]
        bias, groups = source.bias, source.groups
    else:
        own, note = without_weights(window, recipe.channels)
        weight = new_weight(recipe)
    edge = DartsEdge(
        layer_axes(window, causal),
        weight,
        bias,
        groups=groups,
        padding_mode=getattr(source, "padding_mode", "zeros"),
        count_include_pad=window.count_include_pad,
        causal=causal,
        mixture=mixture(own, perturb),
    ).to(device)
    for name in ("kernel_size", "padding", "dilation"):  # for networks that read them
        if hasattr(source, name):
            setattr(edge, name, getattr(source, name))
    if taps is not None:
        edge.weight.requires_grad_(source.weight.requires_grad)
    return edge, DartsOrigin(module, recipe, perturb, own, taps), note


def restore(module: nn.Module, recipe: Recipe, settings: Mapping[str, Any], device: torch.device) -> tuple[nn.Module, Origin]:
    """The edge that stood for `module` once, made again without an example."""
    edge, origin, _ = make_edge(module, recipe, float(settings["perturb"]), device)
    return edge, origin


def without_weights(window: Window, channels: tuple[int, int]) -> tuple[str, str]:
    """Operation and note of a pool or shortcut."""
    if window.takes == "identity":
        centred = window.offset == (channels[1] - channels[0]) // 2
        return "identity", "" if centred else "closest operation: identity, channels padded alike on both sides"
    own = "avg_pool_3" if window.takes == "mean" else "max_pool_3"
    same = set(window.kernel) == {3} and set(window.dilation) == {1}
    return own, "" if same else f"closest operation: {own}"


def new_weight(recipe: Recipe) -> Tensor:
    """Filters for a layer that had none, as torch's convolutions start."""
    c_in, c_out = recipe.channels
    with preserved_rng(recipe.seed):
        weight = torch.empty(c_out, c_in, *(5,) * len(recipe.input_size), dtype=recipe.dtype)
        return nn.init.kaiming_uniform_(weight, a=5**0.5)


def closest_conv(conv: Window, causal: bool) -> tuple[str, TapPairs, str]:
    """The operation of the set that a convolution is, or the closest, and where its taps are in the 5-kernel."""
    layer = list(zip(conv.kernel, conv.dilation, strict=True))
    for name, (width, dilation) in _CONVS.items():
        found = [places(k, d, width, dilation, causal) for k, d in layer]
        if all(place is not None for place in found):
            return name, pair(found, [0] * len(layer)), ""
    width, dilation = 3 if max(conv.kernel) <= 3 else 5, 2 if any(k > 1 and d > 1 for k, d in layer) else 1
    name = next(name for name, shape in _CONVS.items() if shape == (width, dilation))
    kept = [min(k, width) for k in conv.kernel]
    skipped = [(k - w) if causal else (k - w) // 2 for k, w in zip(conv.kernel, kept, strict=True)]
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


def pair(found: Sequence[list[int] | None], skipped: Sequence[int]) -> TapPairs:
    """All combinations over dimensions of (tap of the layer, tap of the 5-kernel)."""
    per_dimension = [[(j + skip, i) for j, i in enumerate(place or ())] for place, skip in zip(found, skipped, strict=True)]
    return tuple((tuple(j for j, _ in point), tuple(i for _, i in point)) for point in product(*per_dimension))
