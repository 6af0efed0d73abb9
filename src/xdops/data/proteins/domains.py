"""40 domains of known structure, with the features that an alignment gives (Kortemme-Lab/covariation; PDB and Pfam, CC0).

A small set in one file, kortemme40_features.npz: arrays ID/{seq, cb, pssm, entropy, potential, mfdca, freecon}. What PDNET computes
with other programs is not there: predicted secondary structure and solvent accessibility are absent, their channels are zero, and
mean-field direct coupling analysis stands in the place of CCMpred.
"""

from pathlib import Path

import numpy as np

from xdops.data.arrays import NpzFile
from xdops.data.places import find_file
from xdops.data.proteins.protein import RESIDUE_FEATURES, Protein, make_protein
from xdops.errors import XDError

FILE = "kortemme40_features.npz"
SOURCE = "https://github.com/Kortemme-Lab/covariation"
#: Features that this set does not have.
ABSENT = ("ss", "sa")
#: Features of PDNET and what stands for them.
IN_PLACE = {"ccmpred": "mfdca"}


def load_domains(data_dir: str | Path | None) -> list[Protein]:
    """All domains, in the order of their ids."""
    path = find_file(data_dir, "protein", (FILE,), "the 40 domains", SOURCE)
    file = NpzFile(path)
    ids = sorted({name.split("/")[0] for name in file.names})
    if not ids:
        raise XDError(f"{path}, which holds no protein", "arrays ID/seq, ID/cb, ID/pssm, ...", f"the file made from {SOURCE}")
    return [read_domain(file, protein_id) for protein_id in ids]


def read_domain(file: NpzFile, protein_id: str) -> Protein:
    def read(key: str) -> np.ndarray:
        return file.read(f"{protein_id}/{key}")

    sequence = str(read("seq"))
    names = {f"{protein_id}/{key}": key for key in ("pssm", "entropy", "freecon", "potential")}
    features: dict[str, object] = {key: read(key) for name, key in names.items() if name in file.names}
    features |= {key: read(other) for key, other in IN_PLACE.items() if f"{protein_id}/{other}" in file.names}
    features |= {key: np.zeros((RESIDUE_FEATURES[key], len(sequence))).squeeze() for key in ABSENT}
    where = f"{file.path}, {protein_id}"
    return make_protein(protein_id, sequence, features, read("cb"), where, where)


def describe_channels() -> str:
    """What of PDNET's features this set has not, for the user."""
    absent = ", ".join(ABSENT)
    others = ", ".join(f"{other} in place of {key}" for key, other in IN_PLACE.items())
    return f"absent, their channels zero: {absent}; {others}"
