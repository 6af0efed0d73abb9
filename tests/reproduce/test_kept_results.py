"""Results of runs that are elsewhere stay, where they are of the same rows; hours stand beside the paper's."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from mini_table import in_a_folder_of_its_own, replace_rows, reproduce, results, search_row  # noqa: F401

from xdops.report.result_page import hours


def means() -> dict[str, float | None]:
    return {f"{line['method']} {line['setting']['resolution']}": line["mean"] for line in results()["rows"]}


def test_rows_without_runs_here_keep_what_was_found_elsewhere_if_their_settings_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, other, changed = search_row("CNN", 8), search_row("CNN", 12), search_row("CNN XD", 12)
    replace_rows(monkeypatch, [row, other, changed])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    before, machines = means(), results()["machines"]
    shutil.rmtree("runs")
    more = dataclasses.replace(other, settings={**other.settings, "known later": True}, hours=0.5)
    replace_rows(monkeypatch, [row, more, search_row("CNN XD", 12, lr=0.5)])
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "cnn-resolution-8") == 0
    assert means() == before | {"CNN XD 12": None}
    assert results()["machines"] == machines
    assert [line["paper_hours"] for line in results()["rows"]] == [None, 0.5, None]
    page = Path("docs/results.md").read_text()
    assert "| the paper's hours |" in page
    assert "the paper on a V100" in page


def test_hours_are_short_and_never_nothing() -> None:
    assert [hours(value) for value in (None, 0.001, 0.25, 12.3)] == ["–", "< 0.01", "0.25", "12"]


def test_results_that_cannot_be_read_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").mkdir()
    Path("results/mini-laptop.json").write_text(json.dumps({"rows": 3}))
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "cnn-resolution-8") == 2
    assert "mini-laptop.json" in capsys.readouterr().err
