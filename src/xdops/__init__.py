"""xdops finds the right neural operations for data on which nobody knows them yet.

What is public is imported when it is first asked for, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from xdops.convert import (
        ConversionReport,
        ResizeReport,
        RevertReport,
        XDConfig,
        arch_parameters,
        convert_,
        merge_,
        novelty,
        parameter_groups,
        resize_,
        revert_,
        unmerge_,
        weight_parameters,
    )
    from xdops.errors import XDError
    from xdops.matrices import KMatrix
    from xdops.operations import XDOperation, nearest_named
    from xdops.operations.catalogue import named
    from xdops.operations.catalogue.fourier import SpectralConv
    from xdops.operations.distances.measure import distance
    from xdops.report.show import show
    from xdops.spaces import export, load, save

__all__ = [
    "ConversionReport",
    "KMatrix",
    "ResizeReport",
    "RevertReport",
    "SpectralConv",
    "XDConfig",
    "XDError",
    "XDOperation",
    "__version__",
    "arch_parameters",
    "convert_",
    "distance",
    "export",
    "load",
    "merge_",
    "named",
    "nearest_named",
    "novelty",
    "parameter_groups",
    "resize_",
    "revert_",
    "save",
    "show",
    "unmerge_",
    "weight_parameters",
]

#: Where each public name lives.
_HOMES = {
    "xdops.convert": (
        "ConversionReport",
        "ResizeReport",
        "RevertReport",
        "XDConfig",
        "arch_parameters",
        "convert_",
        "merge_",
        "novelty",
        "parameter_groups",
        "resize_",
        "revert_",
        "unmerge_",
        "weight_parameters",
    ),
    "xdops.errors": ("XDError",),
    "xdops.matrices": ("KMatrix",),
    "xdops.operations": ("XDOperation", "nearest_named"),
    "xdops.operations.catalogue": ("named",),
    "xdops.operations.catalogue.fourier": ("SpectralConv",),
    "xdops.operations.distances.measure": ("distance",),
    "xdops.report.show": ("show",),
    "xdops.spaces": ("export", "load", "save"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'xdops' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
