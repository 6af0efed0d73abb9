"""The table's numbers."""

import pytest

from xdops.report.summary import SpaceSummary, summarise, with_spread
from xdops.report.table import terminal_table
from xdops.search import EpochRecord, SearchResult


def row(space: str, *test: float, metric: str = "accuracy", higher: bool = True) -> SpaceSummary:
    return SpaceSummary(space, metric, higher, test, test, 100, 0 if space == "backbone" else 50, 0.5, 0.1)


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
