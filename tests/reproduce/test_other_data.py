"""Other data in miniature: what `xdops search` does by default, and what it would choose among."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from xdops.cli.search import Search
from xdops.data.own import DataSettings, task_from_arrays
from xdops.data.split import Arrays
from xdops.experiments.recipes import RECIPES, TrainingRecipe
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.table import Context
from xdops.reproduce.tables import find_table, other_data
from xdops.reproduce.tables.other_data import DEFAULTS, TRIALS, TUNED, default_search, rows
from xdops.search import Silent

QUICK = TrainingRecipe("small", epochs=1, batch_size=16, lr=1e-2, arch_lr=1e-2, seeds=1)


def waves() -> Arrays:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = np.sin(np.linspace(0, 6, 12) * (1 + y[:, None])) + 0.1 * rng.normal(size=(40, 12))
    return {"all": (x.astype(np.float32), y)}


def test_the_defaults_are_those_of_the_command(tmp_path: Path) -> None:
    task = task_from_arrays(waves(), "waves", DataSettings())
    experiment = Search(data="waves.npz").experiment(task, RECIPES["classification"], tmp_path / "run")
    for space in ("backbone", "darts", "xd"):
        assert experiment.settings_of(space, experiment.search) == default_search(RECIPES["classification"], space)
    assert experiment.network.depth == (3, 3, 3)
    assert experiment.network.backbone == RECIPES["classification"].backbone


def test_every_space_chooses_among_as_many_and_nothing_is_chosen_by_default() -> None:
    found = rows(Context("laptop"))
    assert {len(row.candidates) for row in found if row.setting["settings"] == TUNED} == {TRIALS}
    assert not any(hasattr(row, "candidates") for row in found if row.setting["settings"] == DEFAULTS)
    kinds = {row.setting["data"] for row in found}
    assert len(kinds) == 4


def test_a_set_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_data, "TRIALS", 2)
    recipes = {"classification": QUICK, "dense": QUICK}
    table = dataclasses.replace(find_table("other-data"), rows=lambda c: rows(c, {"leaf outlines": waves}, recipes))
    where = (tmp_path / "runs", tmp_path / "results")
    found = Reproduction(table, Context("laptop"), *where, "xdops reproduce other-data").run(lambda line: None, Silent)
    assert [(line["method"], line["setting"]["settings"]) for line in found["rows"]] == [
        (method, how) for how in (DEFAULTS, TUNED) for method in ("backbone", "DARTS", "XD")
    ]
    assert all(0 <= line["mean"] <= 1 for line in found["rows"])
    assert all(len(line["tried"]) == 2 for line in found["rows"] if line["setting"]["settings"] == TUNED)
