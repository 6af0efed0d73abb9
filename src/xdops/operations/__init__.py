"""The XD-operation, its warm starts and its evaluation. Needs torch alone."""

from xdops.engine.workspace import release_scratch
from xdops.operations.architecture import ARCHITECTURE
from xdops.operations.axes import Axis
from xdops.operations.catalogue import named
from xdops.operations.definition import xd_operation
from xdops.operations.distances.measure import Distance, distance
from xdops.operations.distances.nearest import Neighbour, nearest_named
from xdops.operations.operation import XDOperation
from xdops.operations.shift_invariant import ShiftInvariantOperation
from xdops.operations.shift_start import shift_invariant_from_conv
from xdops.operations.warmstart import from_conv

#: Whatever has K, L and M.
Operation = XDOperation | ShiftInvariantOperation

__all__ = [
    "ARCHITECTURE",
    "Axis",
    "Distance",
    "Neighbour",
    "Operation",
    "ShiftInvariantOperation",
    "XDOperation",
    "distance",
    "from_conv",
    "named",
    "nearest_named",
    "release_scratch",
    "shift_invariant_from_conv",
    "xd_operation",
]
