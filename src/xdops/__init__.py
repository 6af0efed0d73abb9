"""xdops finds the right neural operations for data on which nobody knows them yet."""

from xdops.convert import (
    ConversionReport,
    RevertReport,
    XDConfig,
    arch_parameters,
    convert_,
    merge_,
    novelty,
    parameter_groups,
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
from xdops.spaces import load, save

__version__ = "0.1.0"
__all__ = [
    "ConversionReport",
    "KMatrix",
    "RevertReport",
    "SpectralConv",
    "XDConfig",
    "XDError",
    "XDOperation",
    "__version__",
    "arch_parameters",
    "convert_",
    "distance",
    "load",
    "merge_",
    "named",
    "nearest_named",
    "novelty",
    "parameter_groups",
    "revert_",
    "save",
    "unmerge_",
    "weight_parameters",
]
