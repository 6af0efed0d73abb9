"""Model surgery: a backbone becomes a supernet, and back."""

from xdops.convert.config import XDConfig
from xdops.convert.edges import arch_parameters, edges, novelty, weight_parameters
from xdops.convert.groups import parameter_groups
from xdops.convert.merge import merge_, unmerge_
from xdops.convert.report import ConversionReport, RevertReport
from xdops.convert.resize import ResizeReport, resize_
from xdops.convert.revert import revert_
from xdops.convert.xd import convert_

__all__ = [
    "ConversionReport",
    "ResizeReport",
    "RevertReport",
    "XDConfig",
    "arch_parameters",
    "convert_",
    "edges",
    "merge_",
    "novelty",
    "parameter_groups",
    "resize_",
    "revert_",
    "unmerge_",
    "weight_parameters",
]
