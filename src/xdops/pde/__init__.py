"""Data for learning to solve partial differential equations: Gaussian random fields, and solvers that are tested against exact solutions."""

from xdops.pde.burgers import BurgersSettings, make_burgers, solve_burgers
from xdops.pde.fields import burgers_field, neumann_field, periodic_field

__all__ = [
    "BurgersSettings",
    "burgers_field",
    "make_burgers",
    "neumann_field",
    "periodic_field",
    "solve_burgers",
]
