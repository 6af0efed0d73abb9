"""MAE_8 and the precision of predicted contacts, on maps made by hand."""

import math

import pytest
import torch
from torch import Tensor

from xdops.data.proteins import mae_8, precision

L = 30


def far_apart() -> tuple[Tensor, Tensor, Tensor]:
    """No contacts, predicted as they are; all known. (1, L, L) each."""
    return torch.full((1, L, L), 20.0), torch.full((1, L, L), 20.0), torch.ones(1, L, L, dtype=torch.bool)


def put(maps: Tensor, i: int, j: int, value: float) -> None:
    maps[0, i, j] = maps[0, j, i] = value


def test_mae_8_is_the_error_on_long_range_contacts_alone() -> None:
    prediction, distances, known = far_apart()
    put(distances, 0, 24, 6.0), put(prediction, 0, 24, 7.0)  # off by 1
    put(distances, 2, 29, 8.0), put(prediction, 2, 29, 5.0)  # off by 3
    put(distances, 0, 23, 5.0), put(prediction, 0, 23, 15.0)  # one residue too near in the sequence
    put(distances, 1, 28, 8.1), put(prediction, 1, 28, 15.0)  # too far in space
    assert mae_8(prediction, distances, known).tolist() == pytest.approx([2.0])


def test_both_triangles_are_averaged_before_the_error_is_taken() -> None:
    prediction, distances, known = far_apart()
    put(distances, 0, 27, 6.0)
    prediction[0, 0, 27], prediction[0, 27, 0] = 4.0, 9.0
    assert mae_8(prediction, distances, known).tolist() == pytest.approx([0.5])


def test_what_is_not_known_does_not_count() -> None:
    prediction, distances, known = far_apart()
    put(distances, 0, 27, 6.0), put(prediction, 0, 27, 7.0)
    put(distances, 1, 28, 6.0), put(prediction, 1, 28, 10.0)
    known[0, 28, :] = known[0, :, 28] = False
    assert mae_8(prediction, distances, known).tolist() == pytest.approx([1.0])


def test_each_protein_has_its_own_error_and_one_without_contacts_none() -> None:
    prediction, distances, known = (t.repeat(2, 1, 1) for t in far_apart())
    put(distances, 0, 27, 6.0), put(prediction, 0, 27, 6.5)
    values = mae_8(prediction, distances, known)
    assert float(values[0]) == pytest.approx(0.5)
    assert math.isnan(values[1])
    assert float(precision(prediction, distances, known, 0.2)[0]) == pytest.approx(1 / 6)
    assert math.isnan(precision(prediction, distances, known, 0.2)[1])


def test_precision_is_the_share_of_contacts_among_the_closest_predictions() -> None:
    """L/5 = 6 pairs: four of them in contact; pairs of short range do not count however close they are predicted."""
    prediction, distances, known = far_apart()
    for rank, (i, j) in enumerate([(0, 24), (0, 25), (0, 26), (1, 27), (1, 28), (2, 29)]):
        put(prediction, i, j, 5.0 + rank)
        if rank not in (1, 4):
            put(distances, i, j, 7.0)
    put(prediction, 0, 10, 1.0)
    assert precision(prediction, distances, known, 1 / 5).tolist() == pytest.approx([4 / 6])
    assert precision(prediction, distances, known, 1 / 10).tolist() == pytest.approx([2 / 3])


def test_top_l_counts_residues_with_coordinates_and_no_more_pairs_than_there_are() -> None:
    """Of 30 residues 6 are missing: no pair is 24 apart but with 0..5 known as partners of 24..29."""
    prediction, distances, known = far_apart()
    put(distances, 0, 29, 7.0), put(prediction, 0, 29, 3.0)
    pairs = sum(j - i >= 24 for i in range(L) for j in range(i, L))
    assert pairs < L
    assert precision(prediction, distances, known, 1.0).tolist() == pytest.approx([1 / pairs])
    known[0, 10:16, :] = known[0, :, 10:16] = False  # 24 are left: L/2 is 12 pairs
    assert precision(prediction, distances, known, 1 / 2).tolist() == pytest.approx([1 / 12])
