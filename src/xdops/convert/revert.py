"""The way back: the backbone with its trained weights; and operations fixed for inference."""

from torch import nn

from xdops.convert.edges import edges, origin_of
from xdops.convert.layers import describe
from xdops.convert.replace import swap
from xdops.convert.report import RevertedLayer, RevertReport
from xdops.operations import XDOperation


def revert_(model: nn.Module) -> RevertReport:
    """Put the backbone's layers back in place, the same objects with the weights as trained; says what is lost.

    While a layer's architecture is untouched, nothing is. Operations that `convert_` did not make stay.
    """
    rows = []
    for name, edge in list(edges(model)):
        origin = origin_of(edge)
        if origin is not None:
            layer, change, note = origin.give_back(edge)
            swap(model, edge, layer)
            rows.append(RevertedLayer(name, describe(layer), change, note))
    return RevertReport(tuple(rows))


def merge_(model: nn.Module) -> None:
    """Fix every XD-operation for inference: what depends on parameters alone is computed once."""
    for module in model.modules():
        if isinstance(module, XDOperation):
            module.merge()


def unmerge_(model: nn.Module) -> None:
    """Make every XD-operation trainable again."""
    for module in model.modules():
        if isinstance(module, XDOperation):
            module.unmerge()
