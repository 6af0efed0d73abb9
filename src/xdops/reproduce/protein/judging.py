"""What a trained network says about its test proteins: whole maps, and how good they are, protein by protein."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from xdops.data.proteins import Protein, Proteins, mae_8, precision, symmetric
from xdops.reproduce.protein.networks import build_network
from xdops.reproduce.protein.problem import METRIC, tiles_of
from xdops.reproduce.table import Judged
from xdops.search import load_weights

#: Of the length, how many of the closest pairs are looked at.
SHARES = {"L/5": 1 / 5, "L/2": 1 / 2, "L": 1.0}


def precision_name(share: str) -> str:
    return f"precision {share}"


def trained_network(method: str, depth: int, crop: int, seed: int, folder: Path) -> nn.Module:
    """As it was after the last epoch of the run in `folder`."""
    network = build_network(method, depth, crop, seed)
    load_weights(folder, network, "last")
    return network.eval()


@torch.no_grad()
def predict_map(network: nn.Module, protein: Protein, crop: int) -> Tensor:
    """Distances (L, L), the same both ways."""
    prediction = tiles_of(crop)(network, protein.features()[None])
    return symmetric(prediction[0, 0])


def judge(network: nn.Module, proteins: Sequence[Protein], crop: int) -> Judged:
    """MAE_8 and the precision of long-range contacts: means over the proteins that have such contacts."""
    names = [METRIC, *(precision_name(share) for share in SHARES)]
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    for protein in proteins:
        batch = Proteins((protein,)).batch(torch.zeros(1, dtype=torch.long))
        assert batch.mask is not None
        prediction, distances = predict_map(network, protein, crop)[None], batch.y[..., 0]
        found[METRIC].append(mae_8(prediction, distances, batch.mask)[0])
        for share, part in SHARES.items():
            found[precision_name(share)].append(precision(prediction, distances, batch.mask, part)[0])
    values = {name: float(torch.stack(of).nanmean()) for name, of in found.items()}
    each = {p.id: float(v) for p, v in zip(proteins, found[METRIC], strict=True) if bool(torch.isfinite(v))}
    return Judged(values, each)
