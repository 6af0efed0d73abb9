"""Other data in miniature: what `xdops search` does by default, and what it would choose among."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from xdops.cli.search import Search
from xdops.data.own import DataSettings, task_from_arrays
from xdops.data.split import Arrays
from xdops.experiments.recipes import RECIPES, TrainingRecipe
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.table import Context
from xdops.reproduce.tables import find_table, other_data
from xdops.reproduce.tables.other_data import DEFAULTS, INVARIANT, TRIALS, TUNED, default_search, prepare_invariant, rows
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
        *((method, DEFAULTS) for method in ("backbone", "DARTS", "XD", INVARIANT)),
        *((method, TUNED) for method in ("backbone", "DARTS", "XD")),
    ]
    assert all(0 <= line["mean"] <= 1 for line in found["rows"])
    assert all(len(line["tried"]) == 2 for line in found["rows"] if line["setting"]["settings"] == TUNED)


def test_operations_that_stay_the_same_everywhere_do_not_see_a_shift_of_the_middle() -> None:
    task = task_from_arrays(waves(), "waves", DataSettings())
    network = prepare_invariant(lambda: task, default_search(QUICK, "xd"), "small", 0).network
    layers = [m for m in network.modules() if hasattr(m, "arch_parameters")]
    assert layers
    with torch.no_grad():
        for parameter in layers[0].arch_parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(2, *task.request.input_shape)
    x[0, :, 5], x[1, :, 6] = 1, 1
    seen: list[torch.Tensor] = []
    layers[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    network.eval()(x)
    assert torch.allclose(seen[0][0, :, 4:7], seen[0][1, :, 5:8], atol=1e-6)
