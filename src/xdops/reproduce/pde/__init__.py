"""Learning to solve differential equations: from a function on a grid to the solution on the same grid."""

from xdops.reproduce.pde.functions import Functions, load_functions, random_functions
from xdops.reproduce.pde.networks import build_network
from xdops.reproduce.pde.presets import BURGERS, DARCY, METHODS, NAVIER_STOKES, Preset
from xdops.reproduce.pde.problem import make_problem, request_of

__all__ = [
    "BURGERS",
    "DARCY",
    "METHODS",
    "NAVIER_STOKES",
    "Functions",
    "Preset",
    "build_network",
    "load_functions",
    "make_problem",
    "random_functions",
    "request_of",
]
