"""How far apart are the residues of a protein: PDNET's networks, and XD-operations in place of their convolutions."""

from xdops.reproduce.protein.judging import judge, predict_map, trained_network
from xdops.reproduce.protein.networks import DILATED, METHODS, RESNET, XD, build_network
from xdops.reproduce.protein.presets import PRESETS, Preset
from xdops.reproduce.protein.problem import METRIC, Parts, domain_parts, log_cosh, make_problem, pdnet_parts

__all__ = [
    "DILATED",
    "METHODS",
    "METRIC",
    "PRESETS",
    "RESNET",
    "XD",
    "Parts",
    "Preset",
    "build_network",
    "domain_parts",
    "judge",
    "log_cosh",
    "make_problem",
    "pdnet_parts",
    "predict_map",
    "trained_network",
]
