"""The learning problem: from features of pairs of residues to their distances, on random crops; judged on whole proteins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.backbones.request import Request
from xdops.data.proteins import CHANNELS, Protein, Proteins, load_domains, load_pdnet, mae_8
from xdops.errors import XDError
from xdops.search import Batch, Crops, MeanMetric, Problem, Tiles

METRIC = "MAE_8"
#: Larger distances are all the same to the loss, in angstrom.
FARTHEST = 16.0
#: Zeros around a protein.
MARGIN = 5
#: How many domains the laptop's set has, and the folds that they are dealt into.
DOMAINS = 40
FOLDS = 5
#: Of PDNET's list deepcov, the first ones.
VALIDATION = 100


@dataclass(frozen=True)
class Parts:
    """Proteins to train on, to choose settings by, and to test on."""

    train: tuple[Protein, ...]
    validation: tuple[Protein, ...]
    test: tuple[Protein, ...]


def pdnet_parts(data_dir: Path | None) -> Parts:
    """The published protocol: deepcov, of which the first 100 for validation; tested on PSICOV."""
    deepcov, psicov = (tuple(load_pdnet(data_dir, name)) for name in ("deepcov", "psicov"))
    if len(deepcov) <= VALIDATION:
        raise XDError(
            f"{len(deepcov)} proteins in deepcov.lst",
            f"more than {VALIDATION}: the first {VALIDATION} are for validation",
            "PDNET's own list",
        )
    return Parts(deepcov[VALIDATION:], deepcov[:VALIDATION], psicov)


def domain_parts(data_dir: Path | None, fold: int) -> Parts:
    """Cross-validation on the 40 domains: one fold is the test, the next one validation, the other three are trained on.

    Of the validation fold every third protein is used: nothing is selected by it, and whole proteins take long to predict.
    """
    domains = load_domains(data_dir)
    if len(domains) != DOMAINS:
        raise XDError(f"{len(domains)} domains", f"{DOMAINS}, by which the folds are fixed", "the whole file")
    folds = fixed_folds(domains)
    validation = (fold + 1) % FOLDS
    train = [protein for i, part in enumerate(folds) if i not in (fold, validation) for protein in part]
    return Parts(tuple(train), tuple(folds[validation][::3]), tuple(folds[fold]))


def fixed_folds(proteins: Sequence[Protein]) -> list[list[Protein]]:
    """Dealt out from the shortest to the longest, so that lengths are alike in all folds."""
    ordered = sorted(proteins, key=lambda p: (len(p), p.id))
    return [ordered[i::FOLDS] for i in range(FOLDS)]


def request_of(crop: int) -> Request:
    return Request("dense", CHANNELS, 1, (crop, crop))


def tiles_of(crop: int) -> Tiles:
    """How whole proteins are predicted by a network for crops of this size."""
    return Tiles((crop, crop), overlap=crop // 4, margin=MARGIN)


def make_problem(parts: Parts, crop: int) -> Problem:
    train, validation, test = (Proteins(part) for part in (parts.train, parts.validation, parts.test))
    metric = MeanMetric(METRIC, sum_of_mae_8, higher_is_better=False)
    return Problem(Crops(train, (crop, crop), MARGIN), validation, test, log_cosh, metric, predictor=tiles_of(crop))


def log_cosh(prediction: Tensor, distances: Tensor) -> Tensor:
    """Mean of log cosh of the error, distances clipped at 16; log cosh e = |e| + log(1 + exp(-2|e|)) - log 2 cannot overflow."""
    error = (prediction - distances.clamp(max=FARTHEST)).abs()
    return (error + F.softplus(-2 * error) - math.log(2)).sum() / max(1, error.numel())


def sum_of_mae_8(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """Over the proteins that have contacts of long range, and how many these are."""
    assert batch.mask is not None
    values = mae_8(prediction[:, 0], batch.y[..., 0], batch.mask)
    return values.nansum(), int(torch.isfinite(values).sum())
