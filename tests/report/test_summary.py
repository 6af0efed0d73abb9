"""The table's numbers and the one sentence are honest: seeds decide what may be claimed."""

import pytest
from scipy.stats import ttest_ind

from xdops.report.summary import SpaceSummary, difference_interval, summarise, verdict, with_spread
from xdops.report.table import terminal_table
from xdops.search import EpochRecord, SearchResult


def row(space: str, *test: float, metric: str = "accuracy", higher: bool = True) -> SpaceSummary:
    return SpaceSummary(space, metric, higher, test, test, 100, 0 if space == "backbone" else 50, 0.5, 0.1)


def test_a_gain_far_beyond_the_seeds_is_called_help_with_its_size_and_interval() -> None:
    sentence = verdict([row("backbone", 0.90, 0.91, 0.90), row("xd", 0.97, 0.98, 0.975)])
    assert sentence.startswith("XD helped: test accuracy 97.50 ± 0.50% against the backbone's 90.33 ± 0.58%")
    assert "+7.17 points" in sentence
    assert "95% interval over 3 seeds" in sentence
    assert "74% of the backbone's error is gone" in sentence


def test_a_gain_within_the_spread_of_seeds_is_not_claimed() -> None:
    sentence = verdict([row("backbone", 0.90, 0.95, 0.85), row("xd", 0.91, 0.96, 0.88)])
    assert sentence.startswith("XD made no clear difference over 3 seeds")


def test_a_loss_is_said_plainly() -> None:
    sentence = verdict([row("backbone", 0.97, 0.98, 0.975), row("xd", 0.90, 0.91, 0.90)])
    assert sentence.startswith("XD did not help, it made things worse")
    assert "is gone" not in sentence


def test_lower_is_better_for_errors() -> None:
    kind = {"metric": "RMSE", "higher": False}
    better = verdict([row("backbone", 2.0, 2.1, 2.05, **kind), row("xd", 1.0, 1.1, 1.05, **kind)])
    worse = verdict([row("backbone", 1.0, 1.1, 1.05, **kind), row("xd", 2.0, 2.1, 2.05, **kind)])
    assert better.startswith("XD helped: test RMSE 1.05 ± 0.05")
    assert "49% of the backbone's error is gone" in better
    assert "made things worse" in worse


def test_one_seed_claims_nothing() -> None:
    assert "one seed cannot tell skill from chance" in verdict([row("backbone", 0.5), row("xd", 0.9)])


def test_without_a_backbone_there_is_no_comparison() -> None:
    assert verdict([row("xd", 0.9, 0.9)]).startswith("No comparison")


def test_equal_results_on_all_seeds_are_no_difference() -> None:
    assert "made no clear difference" in verdict([row("backbone", 0.9, 0.9), row("xd", 0.9, 0.9)])


def test_the_interval_is_welchs() -> None:
    a, b = [0.1, 0.4, 0.2, 0.3], [0.5, 0.9, 0.6]
    _, low, high = difference_interval(a, b)
    expected = ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (low, high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_summaries_average_over_seeds_and_layers() -> None:
    def result(test: float, novelty: dict[str, float]) -> SearchResult:
        record = EpochRecord(1, 1.0, 1.0, 0.5, 0.1, 0.1, 0.0, 2.0)
        return SearchResult("accuracy", True, 1, test, test, test, test, 2.0, 10, 5, novelty, (record,), "c", "")

    (got,) = summarise({"xd": [result(0.5, {"a": 0.1, "b": 0.3}), result(0.7, {"a": 0.3, "b": 0.5})]})
    assert got.mean == pytest.approx(0.6)
    assert got.spread == pytest.approx(0.1 * 2**0.5)
    assert got.novelty == pytest.approx(0.3)
    assert with_spread(got) == "60.00 ± 14.14%"


def test_the_terminal_table_has_every_space_and_column() -> None:
    table = terminal_table([row("backbone", 0.9, 0.8), row("xd", 0.95, 0.9)], "t")
    assert list(table.columns[0].cells) == ["backbone", "xd"]
    assert table.columns[1].header == "test accuracy"
    assert len(table.columns) == 7
