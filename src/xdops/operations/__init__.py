"""The XD-operation, its warm starts and its evaluation. Needs torch alone."""

from xdops.operations import named
from xdops.operations.axes import Axis
from xdops.operations.definition import xd_operation
from xdops.operations.operation import ARCHITECTURE, XDOperation
from xdops.operations.warmstart import from_conv

__all__ = ["ARCHITECTURE", "Axis", "XDOperation", "from_conv", "named", "xd_operation"]
