"""The way back: the backbone with its trained weights; and operations fixed for inference."""

from torch import nn

from xdops.convert.edges import edges, origin_of
from xdops.convert.kinds import describe
from xdops.convert.replace import swap
from xdops.convert.report import RevertedLayer, RevertReport
from xdops.operations import XDOperation


def revert_(model: nn.Module) -> RevertReport:
    """Put the backbone's layers back in place, the same objects with the weights as trained; says what is lost.

    While a layer's architecture is untouched, nothing is. Operations that `convert_` did not make stay.
    """
    origins = [(name, edge, origin) for name, edge in edges(model) if (origin := origin_of(edge)) is not None]
    found = [(name, edge, origin.give_back(edge)) for name, edge, origin in origins]  # all or nothing: what can fail comes first
    for _, edge, back in found:
        back.put()
        swap(model, edge, back.module)
    return RevertReport(tuple(RevertedLayer(name, describe(back.module), back.change, back.note) for name, _, back in found))


_OPERATION = "_xdops_operation"


def merge_(model: nn.Module) -> None:
    """Fix every XD-operation for inference: a plain module takes its place, which computes the same; see `XDOperation.merged`."""
    for module in list(model.modules()):
        if isinstance(module, XDOperation):
            plain = module.merged()
            plain.__dict__[_OPERATION] = module  # beside the module, not in it: it must not become a submodule
            swap(model, module, plain)


def unmerge_(model: nn.Module) -> None:
    """Put the XD-operations back, as they were when they were merged."""
    for module in list(model.modules()):
        if _OPERATION in module.__dict__:
            swap(model, module, module.__dict__[_OPERATION])
