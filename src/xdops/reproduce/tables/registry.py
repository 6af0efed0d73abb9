"""Which tables there are. Their modules are imported only when they are asked for."""

import importlib
from typing import Literal, get_args

from xdops.errors import XDError
from xdops.reproduce.table import Table

Scale = Literal["laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)

#: A new table is one line here: its name, and "module:attribute" of a Table.
TABLES: dict[str, str] = {
    "cifar": "xdops.reproduce.tables.cifar:TABLE",
    "novelty": "xdops.reproduce.tables.novelty:TABLE",
    "lenet": "xdops.reproduce.tables.lenet:TABLE",
    "novelty-control": "xdops.reproduce.tables.lenet:CONTROL",
    "burgers": "xdops.reproduce.tables.pde:BURGERS_TABLE",
    "darcy": "xdops.reproduce.tables.pde:DARCY_TABLE",
    "darcy-steps": "xdops.reproduce.tables.darcy_steps:TABLE",
    "navier-stokes": "xdops.reproduce.tables.pde:NAVIER_STOKES_TABLE",
    "protein": "xdops.reproduce.tables.protein:TABLE",
    "music": "xdops.reproduce.tables.sequences:MUSIC",
    "sequences": "xdops.reproduce.tables.sequences:SEQUENCES",
    "resolution": "xdops.reproduce.tables.resolution:TABLE",
    "complexity": "xdops.reproduce.tables.complexity:COMPLEXITY",
    "domains": "xdops.reproduce.tables.domains:DOMAINS_TABLE",
    "pointwise": "xdops.reproduce.tables.pointwise:TABLE",
    "other-data": "xdops.reproduce.tables.other_data:TABLE",
    "solve-time": "xdops.reproduce.tables.solve_time:SOLVE_TIME",
}


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise XDError(f"table {name!r}", f"one of {', '.join(TABLES) or 'none yet'}", "xdops reproduce --list")
    module, attribute = TABLES[name].split(":")
    return getattr(importlib.import_module(module), attribute)
