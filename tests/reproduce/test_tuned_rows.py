"""Rows that choose their settings on validation, in a miniature table."""

import dataclasses
import json
import os
import signal
from pathlib import Path

from mini_table import DISTURB, in_a_folder_of_its_own, replace_rows, reproduce, results, search_row

from xdops.reproduce.table import chosen_among
from xdops.reproduce.tuning import validation
from xdops.search.folder import read_result

__all__ = ["in_a_folder_of_its_own"]  # a fixture that every test here uses


def test_of_a_tuned_row_the_candidate_best_on_validation_gets_the_other_seeds_and_is_reported(monkeypatch) -> None:
    candidates = {f"lr {lr}": search_row("CNN", 8, lr) for lr in (1e-6, 3e-2)}
    replace_rows(monkeypatch, [chosen_among(candidates), search_row("CNN XD", 8)])
    assert reproduce("mini", "-q") == 0
    row, other = results()["rows"]
    home = Path("runs/reproduce/mini-laptop")
    made = {name: sorted(p.name for p in (home / c.folder).glob("seed*")) for name, c in candidates.items()}
    assert made == {"lr 1e-06": ["seed0"], "lr 0.03": ["seed0", "seed1"]}
    assert (row["chosen"], row["seeds"], row["settings"]["weights"]["lr"]) == ("lr 0.03", [0, 1], 3e-2)
    run = json.loads((home / candidates["lr 1e-06"].folder / "seed0/result.json").read_text())
    assert row["tried"]["lr 1e-06"] == run["last_validation"] > row["tried"]["lr 0.03"]
    assert "tried" not in other
    assert "| CNN | resolution 8 | lr 0.03 | lr 1e-06: " in Path("docs/results.md").read_text()


def test_a_tuned_row_reports_nothing_before_every_candidate_is_trained(monkeypatch) -> None:
    row = chosen_among({"fast": search_row("CNN", 8, 3e-2), "slow": search_row("CNN", 8, 1e-6)})
    replace_rows(monkeypatch, [row, search_row("CNN XD", 8)])
    DISTURB.at(3, lambda: os.kill(os.getpid(), signal.SIGINT))  # in the second epoch of the first candidate
    assert reproduce("mini", "-q") == 130
    assert reproduce("mini", "-q", "--rows", "cnn-xd") == 0
    assert results()["rows"][0]["seeds"] == []
    assert reproduce("mini", "-q") == 0
    assert results()["rows"][0]["chosen"] == "fast"


def test_a_candidate_that_diverges_is_not_chosen(monkeypatch) -> None:
    replace_rows(monkeypatch, [chosen_among({"wild": search_row("CNN", 8, 1e9), "tame": search_row("CNN", 8)})])
    assert reproduce("mini", "-q") == 0
    [row] = results()["rows"]
    assert (row["chosen"], row["tried"]["wild"]) == ("tame", None)
    assert "wild: diverged" in Path("docs/results.md").read_text()


def test_a_row_can_choose_by_the_loss_where_its_metric_says_little(monkeypatch) -> None:
    row = search_row("CNN", 8)
    replace_rows(monkeypatch, [row])
    assert reproduce("mini", "-q") == 0
    result = read_result(Path("runs/reproduce/mini-laptop") / row.folder / "seed0")
    last = dataclasses.replace(result.history[-1], validation_loss=1.0, validation_metric=2.0)
    result = dataclasses.replace(result, history=(*result.history[:-1], last))
    assert validation(result, row) == 2.0
    assert validation(result, dataclasses.replace(row, chosen_by="loss")) == 1.0
