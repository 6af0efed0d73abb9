"""xdops finds the right neural operations for data on which nobody knows them yet."""

from xdops.convert import XDConfig, arch_parameters, convert_, merge_, novelty, revert_, unmerge_, weight_parameters
from xdops.errors import XDError
from xdops.matrices import KMatrix
from xdops.operations import XDOperation, nearest_named
from xdops.operations.catalogue import named
from xdops.operations.distances.measure import distance

__version__ = "0.1.0"
__all__ = [
    "KMatrix",
    "XDConfig",
    "XDError",
    "XDOperation",
    "__version__",
    "arch_parameters",
    "convert_",
    "distance",
    "merge_",
    "named",
    "nearest_named",
    "novelty",
    "revert_",
    "unmerge_",
    "weight_parameters",
]
