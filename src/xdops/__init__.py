"""xdops finds the right neural operations for data on which nobody knows them yet."""

from xdops.errors import XDError
from xdops.matrices import KMatrix
from xdops.operations import XDOperation, distance, named, nearest_named

__version__ = "0.1.0"
__all__ = ["KMatrix", "XDError", "XDOperation", "__version__", "distance", "named", "nearest_named"]
