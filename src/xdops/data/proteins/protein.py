"""One protein: what is known of its residues and pairs of residues, and how far these are apart."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xdops.errors import XDError, several

#: Features of residues in PDNET's order, with their numbers of channels; each gives two maps per channel, along rows and columns.
RESIDUE_FEATURES = {"ss": 3, "pssm": 22, "sa": 1, "entropy": 1}
#: Features of pairs, one map each, after those.
PAIR_FEATURES = ("ccmpred", "freecon", "potential")
RESIDUE_CHANNELS = sum(RESIDUE_FEATURES.values())
CHANNELS = 2 * RESIDUE_CHANNELS + len(PAIR_FEATURES)

#: Distances below this, in angstrom, are errors of the files.
LEAST_DISTANCE = 1.0
#: Two halves of a distance map may differ by this much: files hold rounded numbers.
TOLERANCE = 1e-2
HINT = "the file as PDNET publishes it"


@dataclass(frozen=True, eq=False)
class Protein:
    """residue: (27, L); pair: (3, L, L); distances between C-beta atoms (L, L), 0 where `known` says that there is none."""

    id: str
    sequence: str
    residue: Tensor
    pair: Tensor
    distances: Tensor
    known: Tensor

    def __len__(self) -> int:
        return len(self.sequence)

    def features(self) -> Tensor:
        """The maps (57, L, L) that a network sees: of each feature of residues first the one along rows, then along columns."""
        length = len(self)
        along = self.residue[:, None, :].expand(-1, length, -1)
        both = torch.stack([along, along.transpose(1, 2)], dim=1).flatten(0, 1)
        return torch.cat([both, self.pair])


def make_protein(
    name: str, sequence: str, features: Mapping[str, object], distances: np.ndarray, where: str, distances_where: str
) -> Protein:
    """Check and arrange what files hold. where: they are, for errors."""
    length = len(sequence)
    if length < 2:
        raise XDError(f"{where} with a sequence of {several(length, 'residue')}", "at least 2", HINT)
    residue = [as_residue(features, key, count, length, where) for key, count in RESIDUE_FEATURES.items()]
    pair = [as_array(features, key, (length, length), where) for key in PAIR_FEATURES]
    cleaned, known = clean_distances(distances, length, distances_where)
    return Protein(
        name,
        sequence,
        torch.from_numpy(np.concatenate(residue).astype(np.float32)),
        torch.from_numpy(np.stack(pair).astype(np.float32)),
        torch.from_numpy(cleaned.astype(np.float32)),
        torch.from_numpy(known),
    )


def as_residue(features: Mapping[str, object], key: str, count: int, length: int, where: str) -> np.ndarray:
    """A feature of residues as (channels, L): PDNET has ss as (3, L), pssm as (L, 22), the others as (L,)."""
    shape = {"ss": (count, length), "pssm": (length, count)}.get(key, (length,))
    array = as_array(features, key, shape, where)
    return array.T if key == "pssm" else array.reshape(count, length)


def as_array(features: Mapping[str, object], key: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    """The feature as floats, refused unless it is there, of this shape, and finite."""
    if key not in features:
        raise XDError(f"{where} without feature {key!r}, with {', '.join(map(repr, features))}", f"{key!r} of shape {shape}", HINT)
    try:
        array = as_floats(features[key])
    except (TypeError, ValueError, OverflowError) as error:
        raise XDError(f"{where} with feature {key!r} that is not numeric ({error})", f"numbers of shape {shape}", HINT) from error
    if array.shape != shape:
        raise XDError(f"{where} with feature {key!r} of shape {array.shape}", f"{shape}, by the length of the sequence", HINT)
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        count = int((~np.isfinite(array)).sum())
        raise XDError(
            f"{where} with {several(count, 'value')} of feature {key!r} that are NaN or infinite, the first at {bad}",
            "finite features; only distances may be missing",
            HINT,
        )
    return array


def as_floats(given: object) -> np.ndarray:
    """Raises TypeError, ValueError or OverflowError for what is not; numpy would drop imaginary parts and read text as numbers."""
    array = np.asarray(given)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers")
    if array.dtype.kind in "US":
        raise TypeError("text")
    return array.astype(np.float64)


def clean_distances(given: np.ndarray, length: int, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Distances and which are known. Those below 1 become 1, and on the diagonal stands the mean of what is beside it in its row.

    Residues without coordinates are NaN in the file.
    """
    distances = np.array(given, dtype=np.float64)
    if distances.shape != (length, length):
        square = distances.ndim == 2 and distances.shape[0] == distances.shape[1]
        raise XDError(
            f"{where} with a distance map of shape {distances.shape}" + ("" if square else ", which is not square"),
            f"({length}, {length}), for a sequence of {length} residues",
            HINT,
        )
    known = ~np.isnan(distances)
    if not known.any():
        raise XDError(f"{where} with no distance at all", "some residues with coordinates", HINT)
    if np.isinf(distances).any() or (distances[known] < 0).any():
        raise XDError(f"{where} with distances that are negative or infinite", "distances in angstrom", HINT)
    gap = np.where(known & known.T, np.abs(distances - distances.T), np.where(known == known.T, 0.0, np.inf))
    if gap.max() > TOLERANCE:
        row, column = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        raise XDError(
            f"{where} with a distance map that is not symmetric: {distances[row, column]:.4g} at ({row}, {column}), "
            f"{distances[column, row]:.4g} at ({column}, {row})",
            "the same distance both ways",
            HINT,
        )
    distances[distances < LEAST_DISTANCE] = LEAST_DISTANCE
    for i in np.flatnonzero(known.diagonal()).tolist():
        beside = [distances[i, j] for j in (i - 1, i + 1) if 0 <= j < length and known[i, j]]
        distances[i, i] = np.mean(beside) if beside else LEAST_DISTANCE
    return np.where(known, distances, 0.0), known
