"""Data for learning to solve differential equations: Gaussian random fields, and solvers checked against exact solutions."""

from xdops.pde.burgers import BurgersSettings, make_burgers, solve_burgers
from xdops.pde.darcy import DarcySettings, darcy_matrix, make_darcy, solve_darcy
from xdops.pde.fields import burgers_field, neumann_field, periodic_field
from xdops.pde.navier_stokes import NavierStokesSettings, make_navier_stokes, published_forcing, solve_navier_stokes, stable_step

__all__ = [
    "BurgersSettings",
    "DarcySettings",
    "NavierStokesSettings",
    "burgers_field",
    "darcy_matrix",
    "make_burgers",
    "make_darcy",
    "make_navier_stokes",
    "neumann_field",
    "periodic_field",
    "published_forcing",
    "solve_burgers",
    "solve_darcy",
    "solve_navier_stokes",
    "stable_step",
]
