"""The interval of a difference holds the truth as often as it says, on predictions whose truth is known."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from xdops.errors import XDError
from xdops.experiments import verdict
from xdops.experiments.verdict import ENOUGH_SEEDS, compare

COMPARISONS = 500
EXAMPLES = 200


def simulate_classes(generator: np.random.Generator, seeds: int, spread: float) -> tuple[dict, dict, float, float]:
    """Right or wrong on every example, easy and hard ones, by networks of which no two trainings give the same.

    A network of level l is right on an example of hardness h with probability Phi(l - h), so on all, h ~ N(0, 1), with Phi(l /
    sqrt 2). Returns the scores of two spaces, the true difference of the very networks, and that of the spaces.
    """
    hardness = generator.normal(size=EXAMPLES)
    scores, networks, spaces = [], [], []
    for skill in (0.8, 1.1):
        level = skill + spread * generator.normal(size=seeds)
        right = generator.random((seeds, EXAMPLES)) < norm.cdf(level[:, None] - hardness)
        scores.append(dict(enumerate(right.astype(float))))
        networks.append(norm.cdf(level / 2**0.5).mean())
        spaces.append(norm.cdf(skill / (2 + spread**2) ** 0.5))
    return scores[0], scores[1], networks[1] - networks[0], spaces[1] - spaces[0]


def simulate_numbers(generator: np.random.Generator, seeds: int, spread: float) -> tuple[dict, dict, float, float]:
    """Squared errors, of which no two trainings give the same, skewed and alike for both spaces on the same example."""
    common = generator.normal(size=EXAMPLES)
    scores, networks, spaces = [], [], []
    for size in (1.0, 0.85):
        level = size * np.exp(spread * generator.normal(size=seeds))
        errors = level[:, None] * (0.8 * common + 0.6 * generator.normal(size=(seeds, EXAMPLES)))
        scores.append(dict(enumerate(errors**2)))
        networks.append((level**2).mean())
        spaces.append(size**2 * math.exp(2 * spread**2))
    return scores[0], scores[1], networks[1] - networks[0], spaces[1] - spaces[0]


@pytest.mark.parametrize("simulate", [simulate_classes, simulate_numbers])
@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.1), (ENOUGH_SEEDS, 0.1), (20, 0.05)])
def test_the_interval_holds_the_truth_in_93_to_97_of_100_comparisons(simulate, seeds, spread, monkeypatch):
    monkeypatch.setattr(verdict, "RESAMPLES", 500)
    generator = np.random.default_rng(1000 * seeds + 12)
    held = 0
    for repetition in range(COMPARISONS):
        base, new, of_networks, of_spaces = simulate(generator, seeds, spread)
        found = compare(base, new, higher_is_better=True, seed=repetition)
        truth = of_spaces if found.speaks_of_training else of_networks
        held += found.low <= truth <= found.high
    assert 0.93 <= held / COMPARISONS <= 0.97


def test_a_few_examples_that_all_change_for_the_better_prove_nothing():
    base, four, many = np.ones(50), np.ones(50), np.ones(50)
    base[:10] = four[4:10] = 0
    found = compare({0: base, 1: base}, {0: four, 1: four}, higher_is_better=True)
    assert (found.for_better, found.for_worse) == (4, 0)
    assert not found.sure  # a coin does it one time in eight
    assert compare({0: base, 1: base}, {0: many, 1: many}, higher_is_better=True).sure


def test_few_seeds_speak_of_the_trained_networks_alone():
    base, new, _, _ = simulate_classes(np.random.default_rng(0), ENOUGH_SEEDS, 0.1)
    assert compare(base, new, True).speaks_of_training
    del base[0]
    found = compare(base, new, True)
    assert not found.speaks_of_training
    assert found.seeds == (1, 2, 3, 4)


def test_examples_that_change_sides_are_counted_per_pair_of_runs():
    base = {0: [1, 1, 0, 0, 1], 1: [1, 0, 0, 0, 1]}
    new = {0: [1, 0, 1, 1, 1], 1: [1, 0, 0, 0, 1]}
    found = compare(base, new, higher_is_better=True)
    assert (found.for_better, found.for_worse) == (1.0, 0.5)
    found = compare(base, new, higher_is_better=False)
    assert (found.for_better, found.for_worse) == (0.5, 1.0)
    assert found.difference == pytest.approx(0.1)


def test_a_root_of_a_mean_is_compared_as_such():
    base, new = {0: [4.0] * 30}, {0: [1.0] * 30}
    found = compare(base, new, higher_is_better=False, final=math.sqrt)
    assert (found.base, found.new) == (2.0, 1.0)
    assert -1.1 < found.low <= -1 <= found.high < -0.7
    assert found.sure


def test_longer_sequences_weigh_as_many_steps_as_they_have():
    base, new = {0: [30.0, 2.0]}, {0: [30.0, 1.0]}
    found = compare(base, new, higher_is_better=False, units=[3, 1])
    assert (found.base, found.new) == (8.0, 7.75)


def test_no_difference_at_all_is_not_sure():
    scores = {0: [1.0, 0.0], 1: [0.0, 1.0]}
    assert not compare(scores, scores, higher_is_better=True).sure


def test_spaces_without_a_common_seed_are_refused():
    with pytest.raises(XDError, match="seed in common"):
        compare({0: [1.0]}, {1: [1.0]}, higher_is_better=True)
