"""Networks to start from. Each is a function or class of one `Request`."""

from xdops.backbones.operator import OperatorNet, operator_cnn
from xdops.backbones.request import Request
from xdops.backbones.residual import ResidualCNN

__all__ = ["OperatorNet", "Request", "ResidualCNN", "operator_cnn"]
