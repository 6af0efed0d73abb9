"""How predicted distances are judged: MAE_8 and the precision of predicted contacts, on pairs far apart in the sequence.

Predictions, distances and which of these are known are maps (N, L, L); both triangles of a prediction are averaged. A protein
without a true contact of long range says nothing: NaN.
"""

import torch
from torch import Tensor

#: Pairs at least so many residues apart are of long range; pairs at most so far apart in space are in contact (angstrom).
LONG_RANGE = 24
CONTACT = 8.0


def symmetric(prediction: Tensor) -> Tensor:
    """The mean of both triangles."""
    return (prediction + prediction.mT) / 2


def long_range(length: int, device: torch.device | None = None) -> Tensor:
    """Pairs (i, j) with j - i >= 24, each once; (L, L)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(LONG_RANGE)


def mae_8(prediction: Tensor, distances: Tensor, known: Tensor) -> Tensor:
    """Mean absolute error over the long-range pairs within 8 angstrom of each protein, (N,)."""
    counted = known & (distances <= CONTACT) & long_range(distances.shape[-1], distances.device)
    error = torch.where(counted, (symmetric(prediction) - distances).abs(), 0).sum(dim=(1, 2))
    return error / counted.sum(dim=(1, 2))


def precision(prediction: Tensor, distances: Tensor, known: Tensor, share: float) -> Tensor:
    """Of the share x L long-range pairs that are predicted closest, the part that is in contact; per protein, (N,).

    L counts residues with coordinates.
    """
    values = []
    for predicted, true, there in zip(symmetric(prediction), distances, known, strict=True):
        pairs = there & long_range(len(true), true.device)
        contact = (true[pairs] < CONTACT).to(true)
        closest = predicted[pairs].argsort(stable=True)[: max(1, round(share * int(there.diagonal().sum())))]
        values.append(contact[closest].mean() if contact.any() else true.new_tensor(float("nan")))
    return torch.stack(values)
