"""Every table and figure of the paper, in its order, and the tables here that reproduce it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Exhibit:
    """One of them. tables: names as in TABLES, there or to come. kind: settings are used by the tables, a diagram needs no run."""

    place: str
    what: str
    tables: tuple[str, ...] = ()
    kind: Literal["results", "settings", "diagram"] = "results"


PAPER = (
    Exhibit("Figure 1", "diagram of the search space", kind="diagram"),
    Exhibit("Table 1", "search spaces on CIFAR-10 and permuted CIFAR-10, LeNet and ResNet-20", ("cifar",)),
    Exhibit("Figure 2", "distance of the operations found from the backbone's, as-is and permuted", ("novelty", "novelty-control")),
    Exhibit("Figure 3 left", "Burgers' equation: error against resolution", ("burgers",)),
    Exhibit("Figure 3 right", "Darcy flow: error against resolution", ("darcy",)),
    Exhibit("Table 2", "Navier-Stokes: error at two viscosities", ("navier-stokes",)),
    Exhibit("Figure 4", "protein distances (PSICOV): MAE_8 against depth", ("protein",)),
    Exhibit("Table 3", "music: loss on JSB Chorales and Nottingham", ("music",)),
    Exhibit("Table 4", "cost of XD-operations and convolutions", ("complexity",)),
    Exhibit("Table 5", "architecture optimizer on CIFAR-10", ("cifar",), "settings"),
    Exhibit("Table 6", "CIFAR-10 with more backbones and cell searches", ("cifar",)),
    Exhibit("Table 7", "architecture optimizer on PDEs", ("burgers", "darcy", "navier-stokes"), "settings"),
    Exhibit("Table 8", "Burgers' equation: errors as a table, and those of earlier methods", ("burgers",)),
    Exhibit("Table 9", "Darcy flow: errors as a table, and those of earlier methods", ("darcy",)),
    Exhibit("Figure 5", "Darcy flow: training and test curves at one resolution", ("darcy",)),
    Exhibit("Table 10", "architecture optimizer on proteins", ("protein",), "settings"),
    Exhibit("Table 11", "protein distances: MAE_8 at every depth", ("protein",)),
    Exhibit("Table 12", "architecture optimizer on sequences", ("sequences",), "settings"),
    Exhibit("Table 13", "sequences: permuted MNIST, JSB Chorales, Nottingham, Penn Treebank", ("sequences",)),
)


def tables_of_the_paper() -> list[str]:
    """Names of the tables that reproduce its results, in its order."""
    return list(dict.fromkeys(table for exhibit in PAPER if exhibit.kind == "results" for table in exhibit.tables))
