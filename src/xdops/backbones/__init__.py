"""Networks to start from. Each is a function or class of one `Request`."""

from xdops.backbones.build import build_backbone
from xdops.backbones.distances import DistanceResNet, dilated_resnet
from xdops.backbones.fno import SpectralConv, operator_fno
from xdops.backbones.lenet import LeNet
from xdops.backbones.operator import OperatorNet, operator_cnn
from xdops.backbones.request import Request
from xdops.backbones.residual import ResidualCNN
from xdops.backbones.resnet import ResNet20
from xdops.backbones.small import SmallCNN
from xdops.backbones.wide_resnet import WideResNet

__all__ = [
    "DistanceResNet",
    "LeNet",
    "OperatorNet",
    "Request",
    "ResNet20",
    "ResidualCNN",
    "SmallCNN",
    "SpectralConv",
    "WideResNet",
    "build_backbone",
    "dilated_resnet",
    "operator_cnn",
    "operator_fno",
]
