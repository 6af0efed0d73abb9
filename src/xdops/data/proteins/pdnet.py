"""PDNET's download (Adhikari 2020): lists of ids, and for each id a pickled dict of features and a saved array with its distances.

    deepcov.lst   psicov.lst   cameo-hard.lst
    deepcov/features/ID.pkl    deepcov/distance/ID-cb.npy     and likewise in psicov and cameo

Both kinds of file are pickles, which `xdops.data.pickles` reads without running anything.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from xdops.data.pickles import read_object_npy, read_pickle
from xdops.data.places import data_folder
from xdops.data.proteins.protein import HINT, Protein, as_floats, make_protein
from xdops.errors import XDError

SOURCE = "http://deep.cs.umsl.edu/pdnet/"
#: List -> the folder of its proteins.
SETS = {"deepcov": "deepcov", "psicov": "psicov", "cameo-hard": "cameo"}


def load_pdnet(
    data_dir: str | Path | None, name: str, first: int = 0, last: int | None = None, tell: Callable[[int, int], None] | None = None
) -> list[Protein]:
    """The proteins of a list, in its order, from `first` up to `last`. tell(done, of): called after each."""
    root = pdnet_folder(data_dir)
    if name not in SETS:
        raise XDError(f"set {name!r}", f"one of {', '.join(SETS)}", "deepcov for training, psicov for testing")
    ids = read_list(root / f"{name}.lst")[first:last]
    folder = root / SETS[name]
    check_files(folder, ids, f"{name}.lst")
    proteins = []
    for i, protein_id in enumerate(ids):
        proteins.append(read_protein(folder, protein_id))
        if tell is not None:
            tell(i + 1, len(ids))
    return proteins


def pdnet_folder(data_dir: str | Path | None) -> Path:
    """The folder of the lists: the data folder itself, or pdnet, pdnet/data or data in it."""
    root = data_folder(data_dir, "PDNET's data", SOURCE)
    places = [root, root / "pdnet", root / "pdnet" / "data", root / "data"]
    for place in places:
        if any((place / f"{name}.lst").is_file() for name in SETS):
            return place
    raise XDError(
        f"no PDNET data in {root}",
        f"one of {', '.join(f'{name}.lst' for name in SETS)} there or in its folder pdnet",
        f"unpack train-data.tar.gz from {SOURCE}, and say where: --data-dir, or XDOPS_DATA",
    )


def read_list(path: Path) -> list[str]:
    """Ids, the first word of each line."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no regular file")
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise XDError(f"{path}, which cannot be read ({error})", "a list of ids, one per line", f"PDNET's own, {SOURCE}") from error
    ids = [line.split()[0] for line in lines if line.strip()]
    if not ids:
        raise XDError(f"{path}, which is empty", "ids, one per line", f"PDNET's own, {SOURCE}")
    return ids


def check_files(folder: Path, ids: Sequence[str], where: str) -> None:
    """Every id has both files; said before the first of them is read."""
    for protein_id in ids:
        for path in paths(folder, protein_id):
            if not path.is_file():
                raise XDError(
                    f"{protein_id} in {where}, without {path}",
                    f"features/{protein_id}.pkl and distance/{protein_id}-cb.npy in {folder}",
                    f"unpack the whole of train-data.tar.gz from {SOURCE}, or take the id off the list",
                )


def paths(folder: Path, protein_id: str) -> tuple[Path, Path]:
    return folder / "features" / f"{protein_id}.pkl", folder / "distance" / f"{protein_id}-cb.npy"


def read_protein(folder: Path, protein_id: str) -> Protein:
    features_path, distances_path = paths(folder, protein_id)
    features = read_pickle(features_path)
    if not isinstance(features, Mapping) or not isinstance(features.get("seq"), str):
        raise XDError(f"{features_path}, which holds no dict with a sequence 'seq'", "a dict of features", HINT)
    length, sequence, distances = read_distances(distances_path)
    if sequence != features["seq"] or length != len(sequence):
        raise XDError(
            f"{distances_path} of {length} residues, {sequence[:30]}..., and {features_path} of {len(features['seq'])}, "
            f"{features['seq'][:30]}...",
            "the same sequence in both",
            HINT,
        )
    return make_protein(protein_id, sequence, features, distances, str(features_path), str(distances_path))


def read_distances(path: Path) -> tuple[int, str, np.ndarray]:
    """(length, sequence, map), an array of three objects."""
    saved = read_object_npy(path)
    parts = list(saved.ravel()) if saved.dtype == object and saved.size == 3 else []
    if not parts or not isinstance(parts[1], str):
        raise XDError(
            f"{path} of shape {saved.shape} and type {saved.dtype}", "an array of length, sequence and distance map", HINT
        )
    try:
        return int(parts[0]), parts[1], as_floats(parts[2])
    except (TypeError, ValueError, OverflowError) as error:
        raise XDError(f"{path}, whose parts are not a number, a sequence and a map ({error})", "PDNET's own", HINT) from error
