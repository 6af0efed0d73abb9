"""Images are normalised exactly, augmented from the given generator alone, and permuted by bijections that can be stored."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xdops.data.images import CHUNK, Normalisation, Permutation, flip_and_crop
from xdops.data.scaling import Scaling
from xdops.errors import XDError


def test_normalisation_of_bytes_is_that_of_the_numbers_they_are() -> None:
    images = np.random.default_rng(0).integers(0, 256, (2 * CHUNK + 5, 3, 4, 6), np.uint8)
    images[:, 1] //= 2
    ours, theirs = Normalisation.of(images), Scaling.of(images.astype(np.float64))
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)
    np.testing.assert_allclose(ours.std, theirs.std, rtol=1e-12)
    applied = ours.apply(images)
    assert applied.dtype == np.float32
    np.testing.assert_allclose(applied, theirs.apply(images), atol=1e-6)
    np.testing.assert_allclose(ours.undo(torch.from_numpy(applied)).numpy(), images, atol=1e-4)


def test_a_channel_that_never_changes_is_only_centred() -> None:
    images = np.full((3, 1, 2, 2), 200, np.uint8)
    assert Normalisation.of(images) == Normalisation((200.0,), (1.0,))


def test_test_images_are_normalised_by_the_training_images() -> None:
    train, test = np.zeros((2, 1, 1, 1), np.uint8), np.full((1, 1, 1, 1), 30, np.uint8)
    train[1] = 20
    assert Normalisation.of(train).apply(test).item() == 2.0


def slow_flip_and_crop(image: torch.Tensor, flip: bool, top: int, left: int) -> torch.Tensor:
    """The definition, for one image: flip, pad, cut out."""
    padded = torch.zeros(image.shape[0], image.shape[1] + 8, image.shape[2] + 8)
    padded[:, 4:-4, 4:-4] = image.flip(-1) if flip else image
    return padded[:, top : top + image.shape[1], left : left + image.shape[2]]


def test_every_image_is_one_of_its_flipped_crops_and_all_of_them_occur() -> None:
    image = torch.rand(2, 5, 7) + 1
    crops = {(f, t, l): slow_flip_and_crop(image, f, t, l) for f in (False, True) for t in range(9) for l in range(9)}  # noqa: E741
    x = image.expand(3000, -1, -1, -1)
    augmented = flip_and_crop(x, torch.Generator().manual_seed(0))
    assert augmented.shape == x.shape
    found = torch.stack([(augmented == crop).flatten(1).all(1) for crop in crops.values()])  # (162, 3000)
    assert (found.sum(0) == 1).all()
    counts = found.sum(1)
    assert counts.min() > 0
    assert counts.max() < 3000 / len(crops) * 3
    flips = found[len(crops) // 2 :].sum()
    assert abs(int(flips) - 1500) < 150


def test_channels_of_an_image_move_together_and_images_by_themselves() -> None:
    plane = torch.rand(1, 1, 32, 32)
    augmented = flip_and_crop(plane.expand(50, 3, -1, -1), torch.Generator().manual_seed(1))
    assert torch.equal(augmented[:, 0], augmented[:, 1])
    assert torch.equal(augmented[:, 0], augmented[:, 2])
    assert len({image.numpy().tobytes() for image in augmented}) > 30


def test_augmentation_draws_from_its_generator_alone() -> None:
    x = torch.rand(8, 3, 32, 32)
    before, copy = torch.get_rng_state(), x.clone()
    first, again, other = (flip_and_crop(x, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(x, copy)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**31))
def test_a_permutation_is_a_bijection_and_its_inverse_undoes_it(height: int, width: int, seed: int) -> None:
    permutation = Permutation.draw(height, width, seed)
    x = torch.arange(2 * 3 * height * width).reshape(2, 3, height, width)
    permuted = permutation.apply(x)
    assert sorted(permuted.flatten().tolist()) == x.flatten().tolist()
    assert torch.equal(permutation.inverse.apply(permuted), x)
    assert torch.equal(permutation.apply(permutation.inverse.apply(x)), x)
    assert permutation.inverse.inverse == permutation


def test_row_i_of_the_result_is_row_rows_i_of_the_image_also_in_numpy() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    permuted = Permutation((1, 0), (2, 0, 1)).apply(x)
    assert permuted.dtype == np.uint8
    assert permuted.tolist() == [[[5, 3, 4], [2, 0, 1]]]


def test_permuted_and_normalised_images_lie_in_memory_one_after_the_other_so_that_batches_are_picked_quickly() -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), np.uint8)
    permutation = Permutation.draw(8, 8, 0)
    assert permutation.apply(x).flags.c_contiguous
    assert permutation.apply(torch.from_numpy(x)).is_contiguous()
    assert Normalisation.of(x).apply(np.asfortranarray(x)).flags.c_contiguous


def test_a_seed_draws_one_permutation_and_other_seeds_others_whatever_the_global_state() -> None:
    before = torch.get_rng_state()
    drawn = [Permutation.draw(32, 32, seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0].rows != drawn[0].columns


def test_a_permutation_survives_json() -> None:
    permutation = Permutation.draw(32, 32, 3)
    assert Permutation.from_dict(json.loads(json.dumps(permutation.to_dict()))) == permutation


@pytest.mark.parametrize("rows", [(0, 0), (1, 2), (0, 2), (-1, 0)])
def test_what_is_no_permutation_is_refused(rows: tuple[int, ...]) -> None:
    with pytest.raises(XDError, match=r"rows=.*every number from 0 to 1 once"):
        Permutation(rows, (0,))


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(XDError, match=r"images of 3 x 2; expected 2 x 3"):
        Permutation((0, 1), (0, 1, 2)).apply(torch.zeros(1, 3, 2))
