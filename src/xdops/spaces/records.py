"""What was done to a backbone, as plain data, and done again to a fresh one, without an example."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from xdops.convert.config import XDConfig
from xdops.convert.edges import Edge, Origin, origin_of, set_origin
from xdops.convert.kinds import KINDS, describe
from xdops.convert.kinds.convolution import grow, grown_to
from xdops.convert.kinds.kind import LeaveAlone, Recipe
from xdops.convert.merge import merge_operations, merged_layers
from xdops.convert.replace import swap
from xdops.convert.xd import restore as restore_xd
from xdops.errors import XDError
from xdops.operations import Operation
from xdops.spaces.darts import restore as restore_darts

Restore = Callable[[nn.Module, Recipe, Mapping[str, Any], torch.device], tuple[nn.Module, Origin]]

#: How each search space makes an edge again.
_SPACES: dict[str, Restore] = {"XD": restore_xd, "DARTS": restore_darts}
_DTYPES = {str(t).removeprefix("torch."): t for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


def surgery(model: nn.Module) -> dict[str, Any]:
    """`layers`: the converted ones; `grown`: those that came back with larger filters; `merged`: names of the merged ones."""
    layers, grown, merged = [], {}, []
    operations = dict(merged_layers(model))
    for name, place in model.named_modules():
        edge: nn.Module = place
        if place in operations:
            edge = operations[place]
            merged.append(name)
        origin = origin_of(edge)
        if origin is not None:
            layers.append(record(name, edge, origin))
        kernel_size = grown_to(edge if origin is None else origin.module)
        if kernel_size is not None:
            grown[name] = kernel_size
    return {"layers": layers, "grown": grown, "merged": merged}


def record(name: str, edge: nn.Module, origin: Origin) -> dict[str, Any]:
    recipe = origin.recipe
    return {
        "name": name,
        "stride": stride_of(origin.module),
        "kind": recipe.kind,
        "channels": recipe.channels,
        "input_size": recipe.input_size,
        "size": recipe.size,
        "config": {k: v for k, v in dataclasses.asdict(recipe.config).items() if k != "overrides"},  # those of this layer alone
        "seed": recipe.seed,
        "dtype": str(recipe.dtype).removeprefix("torch."),
        "facts": dict(recipe.facts),
        "settings": origin.settings,
        "trained": sorted(edge.trained) if isinstance(edge, Operation) else None,
    }


def stride_of(layer: nn.Module) -> int | list[int] | None:
    """As JSON data."""
    stride = getattr(layer, "stride", None)
    return list(stride) if isinstance(stride, tuple) else stride if isinstance(stride, int) else None


def recipe_of(record: Mapping[str, Any]) -> Recipe:
    config: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in record["config"].items()}
    return Recipe(
        str(record["kind"]),
        (int(record["channels"][0]), int(record["channels"][1])),
        tuple(int(m) for m in record["input_size"]),
        tuple(None if n is None else int(n) for n in record["size"]),
        XDConfig(**config),
        int(record["seed"]),
        _DTYPES[record["dtype"]],
        dict(record["facts"]),
    )


def repeat_(model: nn.Module, done: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Do to a fresh backbone what `surgery` found, but for merging; `shapes`: of the tensors that will be loaded."""
    for name, kernel_size in done["grown"].items():
        layer = fresh_layer(model, name)
        swap(model, layer, grow(layer, within(int(kernel_size), shapes)))
    for entry in done["layers"]:
        name, layer, recipe = str(entry["name"]), fresh_layer(model, entry["name"]), recipe_of(entry)
        kind = KINDS[recipe.kind]
        if not kind.matches(name, layer, recipe.config):
            here = f"the backbone that was saved: here it is a {describe(layer)}"
            raise XDError(f"{name}: {kind.noun} in the file", here, "its own build")
        check_plausible(entry, recipe, layer, shapes)
        device = next((t.device for t in (*layer.parameters(), *model.parameters())), torch.device("cpu"))
        try:
            edge, origin = _SPACES[entry["settings"]["space"]](layer, recipe, entry["settings"], device)
        except (LeaveAlone, XDError) as error:
            raise XDError(
                f"{name}, which cannot be converted as it was ({error})", "the backbone that was saved", "its own build"
            ) from error
        if stride_of(layer) != entry.get("stride", stride_of(layer)):  # which no shape of a tensor tells
            here = f"the backbone that was saved: here it is {stride_of(layer)}"
            raise XDError(f"{name}: stride {entry['stride']} in the file", here, "its own build")
        if isinstance(edge, Operation) and entry["trained"] is not None:
            edge.freeze()
            if entry["trained"]:
                edge.unfreeze(*entry["trained"])
        set_origin(edge, origin)
        swap(model, layer, edge)


def merge_again_(model: nn.Module, done: Mapping[str, Any]) -> None:
    """Merge what was merged."""
    modules = dict(model.named_modules())
    merge_operations(model, [op for name in done["merged"] if isinstance(op := modules[name], Operation)])


def fresh_layer(model: nn.Module, name: str) -> nn.Module:
    """The layer of this name in a backbone that is not converted yet."""
    layer = dict(model.named_modules()).get(name)
    if layer is None or name == "":
        raise XDError(f"a file with a layer {name}", "the backbone that was saved: this one has no such layer", "its own build")
    if isinstance(layer, Edge):
        raise XDError(f"a backbone whose {name} is converted already", "a fresh one: load converts it", "build() without convert_")
    return layer


def check_plausible(entry: Mapping[str, Any], recipe: Recipe, layer: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Build nothing that could not be what the file's tensors are for, however large its numbers are."""
    if entry["settings"]["space"] == "XD":
        depth = recipe.config.depth or 1
        for number in (*recipe.input_size, *(n or 1 for n in recipe.size), *((depth,) if isinstance(depth, int) else depth)):
            within(number, shapes)
    within(recipe.config.kernel_size or 1, shapes)
    if not hasattr(layer, "weight"):
        given = shapes.get(f"{entry['name']}.weight", ())[:2]
        if given != recipe.channels[::-1]:
            raise ValueError(f"{entry['name']}: filters {given} for channels {recipe.channels}")


def within(number: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """A size for which there are numbers in the file: every point of an operation's grid has some."""
    if not 0 < number <= sum(math.prod(shape) for shape in shapes.values()):
        raise ValueError(f"a size of {number}")
    return number
