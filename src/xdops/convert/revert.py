"""The way back: the backbone with its trained weights."""

from torch import nn

from xdops.convert.edges import check_module, edges, origin_of
from xdops.convert.hooks import pass_hooks_on
from xdops.convert.kinds import describe
from xdops.convert.merge import merged_layers
from xdops.convert.refusals import check_whole
from xdops.convert.replace import swap
from xdops.convert.report import RevertedLayer, RevertReport
from xdops.convert.resize import unresized_


def revert_(model: nn.Module) -> RevertReport:
    """Put the backbone's layers back in place, the same objects with the weights as trained; says what is lost.

    While a layer's architecture is untouched, nothing is. Operations that `convert_` did not make stay. A merged model gives its
    layers back from the operations that were merged, a resized one too. Either all layers come back, or, with an error, none.
    """
    check_module(model)
    check_whole(model, "revert_")
    operations = dict(merged_layers(model))
    merged = [(name, place, operations[place]) for name, place in model.named_modules() if place in operations]
    places = [*merged, *((name, edge, edge) for name, edge in edges(model))]
    origins = [(name, place, edge, origin) for name, place, edge in places if (origin := origin_of(edge)) is not None]
    found = [(name, place, origin.give_back(edge)) for name, place, edge, origin in origins]  # what can fail comes first
    for _, place, back in found:
        back.put()
        pass_hooks_on(place, back.module)
        swap(model, place, back.module)
    unresized_(model)
    return RevertReport(tuple(RevertedLayer(name, describe(back.module), back.change, back.note) for name, _, back in found))
