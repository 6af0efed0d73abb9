"""The verdict is honest: test examples and seeds decide what may be claimed."""

import dataclasses
import math
import re

import numpy as np
import pytest

from xdops.experiments.verdict import ENOUGH_SEEDS
from xdops.report.comparisons import Compared, compare_spaces, verdict
from xdops.report.summary import SpaceSummary
from xdops.search import MeanMetric
from xdops.search.scores import Scores

EXAMPLES = 1000


def accuracies(space: str, *means: float) -> tuple[SpaceSummary, dict[int, Scores]]:
    """A space right on a random part of the examples, seed by seed."""
    generator = np.random.default_rng(len(space))
    right = [generator.permutation(np.arange(EXAMPLES) < round(mean * EXAMPLES)) for mean in means]
    return summary(space, means), {seed: scores(values) for seed, values in enumerate(right)}


def summary(space: str, test: tuple[float, ...], metric: str = "accuracy", higher: bool = True) -> SpaceSummary:
    seconds, architecture = (0.5, 0) if space == "backbone" else (1.5, 50)
    return SpaceSummary(space, metric, higher, test, test, 100, architecture, seconds, 0.1)


def scores(values: np.ndarray, units: float = 1.0) -> Scores:
    return Scores(tuple(map(float, values)), (units,) * len(values))


def compared(*spaces: tuple[SpaceSummary, dict[int, Scores]], metric: MeanMetric | None = None) -> list[Compared]:
    metric = metric or MeanMetric("accuracy", lambda prediction, batch: (0.0, 1), True)
    return compare_spaces([row for row, _ in spaces], {row.space: found for row, found in spaces}, metric)


def test_a_gain_beyond_chance_is_called_help_with_size_interval_and_cost() -> None:
    sentence = verdict(compared(accuracies("backbone", 0.90, 0.91, 0.90), accuracies("xd", 0.97, 0.98, 0.975)))
    assert sentence.startswith("XD helped in these runs: test accuracy 97.50 ± 0.50% against the backbone's 90.33 ± 0.58%")
    assert re.search(
        r"\+7.17 points \(95% interval over 1,000 test examples and 3 seeds: \+[56]\.\d\d to \+8\.\d\d points\)", sentence
    )
    assert "74% of the backbone's error is gone" in sentence
    assert "3 seeds are too few to speak of training variance" in sentence
    assert "an epoch takes 3 times as long (1.5 s instead of 0.5 s), and 150 parameters are trained instead of 100" in sentence


def test_few_examples_that_change_sides_are_not_rounded_away() -> None:
    right = np.arange(9) < 7
    base, new = ((summary(space, (0.8, 0.8)), {0: scores(right), 1: scores(right)}) for space in ("backbone", "xd"))
    new[1][1] = scores(np.arange(9) < 4)  # seed 1 loses three examples, seed 0 none
    pairs = compared(base, new)
    assert "0 better, 1.5 worse" in pairs[0].cells()
    assert "Per pair of runs 0 examples change for the better, 1.5 for the worse" in verdict(pairs)
    back = [
        (summary(space, (0.8, 0.8)), found)
        for space, found in (("backbone", {0: scores(np.arange(9) < 7)}), ("xd", {0: scores(np.arange(9) < 8)}))
    ]
    assert "Per pair of runs 1 example changes for the better, 0 for the worse" in verdict(compared(*back))


def test_enough_seeds_speak_of_training() -> None:
    base, new = (0.9,) * ENOUGH_SEEDS, (0.97,) * ENOUGH_SEEDS
    sentence = verdict(compared(accuracies("backbone", *base), accuracies("xd", *new)))
    assert sentence.startswith("XD helped: ")
    assert "too few" not in sentence


def test_a_difference_over_fewer_seeds_than_the_means_says_so() -> None:
    sentence = verdict(compared(accuracies("backbone", 0.90, 0.91, 0.80), accuracies("xd", 0.97, 0.98)))
    assert "97.50 ± 0.71% against the backbone's 87.00 ± 6.08%, a difference of +7.00 points" in sentence
    assert "over 1,000 test examples and the 2 seeds that both have" in sentence


def test_few_seeds_that_disagree_are_told() -> None:
    sentence = verdict(compared(accuracies("backbone", 0.95, 0.6), accuracies("xd", 0.94, 0.95)))
    assert sentence.startswith("XD helped on average, but in 1 of 2 seeds only: ")


def test_a_gain_within_chance_is_not_claimed() -> None:
    sentence = verdict(compared(accuracies("backbone", 0.90, 0.905), accuracies("xd", 0.905, 0.91)))
    assert sentence.startswith("XD made no clear difference")
    assert "zero included" in sentence


def test_a_loss_is_said_plainly() -> None:
    sentence = verdict(compared(accuracies("backbone", 0.97, 0.98), accuracies("xd", 0.90, 0.91)))
    assert sentence.startswith("XD did not help, it made things worse in these runs")
    assert "is gone" not in sentence


def test_darts_is_compared_with_too() -> None:
    found = compared(accuracies("backbone", 0.8, 0.8), accuracies("darts", 0.9, 0.9), accuracies("xd", 0.9, 0.9))
    assert [pair.name for pair in found] == ["xd against backbone", "xd against darts", "darts against backbone"]
    assert "Against DARTS: no clear difference, +0.00 points" in verdict(found)


@pytest.mark.parametrize(
    ("placed", "said"),
    [(0.97, "no more than knowing where each point is"), (0.82, "coordinates alone do not explain the gain")],
)
def test_coordinates_show_whether_the_gain_is_more_than_the_place(placed: float, said: str) -> None:
    found = compared(accuracies("backbone", 0.8, 0.8), accuracies("xd", 0.97, 0.97), accuracies("coordinates", placed, placed))
    assert said in verdict(found)
    assert "xd against coordinates" in [pair.name for pair in found]


def test_where_nothing_is_gained_coordinates_explain_nothing() -> None:
    found = compared(accuracies("backbone", 0.9, 0.9), accuracies("xd", 0.9, 0.9), accuracies("coordinates", 0.9, 0.9))
    assert "Against the backbone that sees coordinates: no clear difference" in verdict(found)
    assert "So " not in verdict(found)


def test_the_root_of_a_mean_of_squares_is_what_an_rmse_is_compared_by() -> None:
    metric = MeanMetric("RMSE", lambda prediction, batch: (0.0, 1), False, math.sqrt)
    generator = np.random.default_rng(0)
    rows = [
        (summary(space, (mean, mean), "RMSE", False), {s: scores(generator.normal(mean, 0.1, 500) ** 2) for s in (0, 1)})
        for space, mean in (("backbone", 2.0), ("xd", 1.0))
    ]
    (pair,) = compared(*rows, metric=metric)
    assert pair.found.difference == pytest.approx(-1, abs=0.02)
    assert pair.error_gone == pytest.approx(0.5, abs=0.01)
    assert verdict([pair]).startswith("XD helped in these runs: test RMSE 1 ± 0")


def test_one_seed_claims_nothing_of_skill() -> None:
    said = verdict(compared(accuracies("backbone", 0.5), accuracies("xd", 0.9)))
    assert said.startswith("XD came out better")
    assert "one seed cannot tell skill from chance" in said
    unsure = verdict(compared(accuracies("backbone", 0.50), accuracies("xd", 0.51)))
    assert unsure.startswith("XD made no clear difference")
    assert "one seed cannot tell skill from chance" in unsure


def test_without_a_backbone_there_is_no_comparison() -> None:
    assert verdict(compared(accuracies("xd", 0.9, 0.9))).startswith("No comparison")


def test_a_table_line_has_a_cell_for_every_head() -> None:
    (pair,) = compared(accuracies("backbone", 0.8, 0.9), accuracies("xd", 0.9, 0.9))
    assert pair.cells()[0] == "xd against backbone"
    assert pair.cells()[3] == f"{-pair.error_gone:+.0%}"
    perfect = dataclasses.replace(pair.found, base=1.0)
    assert Compared(pair.new, pair.base, perfect).cells()[3] == "–"
