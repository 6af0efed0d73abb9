"""The whole network on another grid: every operation that was made for one size becomes one for the size that it will see."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from xdops.convert import weights
from xdops.convert.edges import origin_of, relative_distance, set_origin
from xdops.convert.hooks import pass_hooks_on
from xdops.convert.refusals import check_example, check_model
from xdops.convert.replace import swap
from xdops.convert.report import by
from xdops.convert.uses import ExampleInput, Uses, arguments, record_uses, undisturbed
from xdops.convert.xd import XDOrigin, warm_started
from xdops.errors import XDError
from xdops.measuring.tables import html_table, table
from xdops.operations import XDOperation
from xdops.operations.architecture import computes_weight
from xdops.operations.resampling import ResampledOperation

_HEAD = ("layer", "was for", "is for", "how")


@dataclass(frozen=True)
class ResizedLayer:
    name: str
    old: tuple[int, ...]
    new: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class ResizeReport:
    """One row per operation whose size changed; print it."""

    layers: tuple[ResizedLayer, ...]

    def _rows(self) -> list[tuple[str, ...]]:
        return [(r.name, by(r.old), by(r.new), r.how) for r in self.layers]

    def __str__(self) -> str:
        return table(_HEAD, self._rows())

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows(), "operations on another grid")


def resize_(model: nn.Module, example_input: ExampleInput) -> ResizeReport:
    """Let a converted model take inputs like `example_input`, of a finer, coarser or larger grid, in place; print what it returns.

    An operation whose architecture is untouched becomes the one that its layer, the convolution or Fourier layer, is at the new
    size: exactly that layer. One that has learned is carried over as the operator that it is, A' = I A R: its input is read at
    the old points and its output interpolated to the new ones (`xdops.operations.resampling`), by the band-limited polynomial where
    the layer is circular, by straight lines otherwise. It shares all parameters with what it was, learns as before, and merges and
    exports; resizing back to the old size gives the old operation back. Shift-invariant operations, DARTS edges and plain layers
    take any size already, and stay as they are.

    Refused, with nothing changed: a model that its layers' sizes do not allow to run on the example (a linear layer behind a
    flattened grid, say), a merged model, a causal operation that has learned (what lies between two steps would have to be known
    before the second), and an operation that is used on several grids.
    """
    check_model(model, "resize_")
    check_example(example_input)
    found = dict(_operations(model))
    seen = _uses_of_layers(model, example_input)
    changes = []
    for name, (place, op, origin) in found.items():
        uses = seen[name].recorded
        if len(uses) > 1:
            raise XDError(
                f"{name}, used on grids of {' and '.join(by(s[1:]) for s in uses)} points", "one grid", "an example of one"
            )
        for x, y in uses.values():
            if (new := tuple(x.shape[2:])) != _size_of(place, origin):
                changes.append((name, place, *_resized(name, op, origin, new, tuple(y.shape[2:]), x.device)))
    for _, place, module, _ in changes:
        swap(model, place, module)
    try:
        with undisturbed(model):
            args, kwargs = arguments(example_input)
            model(*args, **kwargs)
    except BaseException:
        for _, place, module, _ in changes:
            swap(model, module, place)
        raise
    for _, place, module, _ in changes:
        if not (isinstance(module, ResampledOperation) and module.operation is place):  # inside of it, it keeps its hooks
            pass_hooks_on(place, module)
    return ResizeReport(tuple(row for *_, row in changes))


def unresized_(model: nn.Module) -> None:
    """Take operations out of what resamples around them."""
    for module in list(model.modules()):
        if isinstance(module, ResampledOperation):
            pass_hooks_on(module, module.operation)
            swap(model, module, module.operation)


def _operations(model: nn.Module) -> Iterator[tuple[str, tuple[nn.Module, XDOperation, XDOrigin]]]:
    """Name, what stands there, the operation itself, and where it comes from."""
    inside = {id(m.operation) for m in model.modules() if isinstance(m, ResampledOperation)}
    for name, place in model.named_modules():
        op = place.operation if isinstance(place, ResampledOperation) else place
        if id(place) in inside or not isinstance(op, XDOperation):
            continue
        origin = origin_of(op)
        if not isinstance(origin, XDOrigin):
            raise XDError(f"{name or 'a model that is an operation'}, which convert_ has not made", "a converted model", "convert_")
        yield name, (place, op, origin)


def _size_of(place: nn.Module, origin: XDOrigin) -> tuple[int, ...]:
    return place.inputs if isinstance(place, ResampledOperation) else origin.recipe.input_size


def _uses_of_layers(model: nn.Module, example_input: ExampleInput) -> dict[str, Uses]:
    """What each operation will see: the model runs once with the layers, which take any size, in their operations' places."""
    with _as_backbone(model) as layers:
        try:
            uses, _ = record_uses(model, example_input, layers)
        except XDError as error:
            raise XDError(
                f"a model that cannot be resized: {error.given}", "a network for any size of its input", error.hint
            ) from error
    return uses


@contextmanager
def _as_backbone(model: nn.Module) -> Iterator[dict[str, nn.Module]]:
    """For a while, what every operation started as in its place."""
    places = [(name, place, origin.source) for name, (place, _, origin) in _operations(model)]
    try:
        for _, place, source in places:
            swap(model, place, source)
        yield {name: source for name, _, source in places}
    finally:
        for _, place, source in places:
            swap(model, source, place)


def check_own_weight(name: str, op: XDOperation) -> None:
    """Refuse what a hook computes anew at every call, which another operation would not."""
    if any(map(computes_weight, op._forward_pre_hooks.values())):
        raise XDError(
            f"{name}, whose weight is pruned or computed by a hook", "a weight of its own", "prune.remove(layer, 'weight')"
        )


def _resized(
    name: str, op: XDOperation, origin: XDOrigin, inputs: tuple[int, ...], outputs: tuple[int, ...], device: torch.device
) -> tuple[nn.Module, ResizedLayer]:
    recipe = origin.recipe
    if inputs == recipe.input_size:
        return op, ResizedLayer(name, inputs, inputs, "as it was made")
    row = ResizedLayer(name, recipe.input_size, inputs, "")
    if relative_distance(origin.now(op), origin.warm_start()) == 0:
        check_own_weight(name, op)
        example = torch.zeros(1, recipe.channels[0], *inputs, dtype=recipe.dtype)
        sizes = origin.kind.sizes(origin.source, [example], recipe.config)
        moved = dataclasses.replace(origin, recipe=dataclasses.replace(recipe, input_size=inputs, size=sizes))
        new = warm_started(moved, device)
        assert isinstance(new, XDOperation)
        weights.share(op, new)
        for (_, p), (_, was) in zip(new.architecture(), op.architecture(), strict=True):
            p.requires_grad_(was.requires_grad)
        new.trained, new.plan = op.trained, op.plan
        set_origin(new, moved)
        return new, dataclasses.replace(row, how="untouched: its layer at the new size")
    if op.causal is not None:
        raise XDError(
            f"{name}, a causal operation that has learned, for {by(inputs)} points instead of {by(recipe.input_size)}",
            "an operation that is not causal, since interpolation looks at the next step",
            "XDConfig(shift_invariant=True, causal=True), whose operations take any length",
        )
    old = recipe.input_size, tuple(axis.out(m) for axis, m in zip(op.axes, recipe.input_size, strict=True))
    periodic = op.padding_mode == "circular" or recipe.kind == "fourier"
    resampled = ResampledOperation(op, old, (inputs, outputs), periodic).to(device)
    how = f"as an operator, by {'band-limited' if periodic else 'linear'} interpolation"
    return resampled, dataclasses.replace(row, how=how)
