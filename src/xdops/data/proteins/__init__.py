"""Proteins as PDNET has them: features of residues and of pairs of residues, and the distances to be predicted."""

from xdops.data.proteins.domains import ABSENT, IN_PLACE, load_domains
from xdops.data.proteins.metrics import mae_8, precision, symmetric
from xdops.data.proteins.pdnet import load_pdnet, read_list, read_protein
from xdops.data.proteins.protein import CHANNELS, Protein
from xdops.data.proteins.source import Proteins

__all__ = [
    "ABSENT",
    "CHANNELS",
    "IN_PLACE",
    "Protein",
    "Proteins",
    "load_domains",
    "load_pdnet",
    "mae_8",
    "precision",
    "read_list",
    "read_protein",
    "symmetric",
]
