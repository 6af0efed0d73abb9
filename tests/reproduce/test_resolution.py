"""Networks that are trained on one grid are judged on others of the same samples."""

import dataclasses
from pathlib import Path

import pytest

from xdops.pde.burgers import BurgersSettings
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.table import Context
from xdops.reproduce.tables import resolution


@pytest.mark.trains
def test_every_network_is_asked_on_every_grid_and_loses_little_on_a_finer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tiny = dataclasses.replace(
        resolution.LAPTOP,
        data=BurgersSettings(samples=14, size=64),
        train=10,
        test=4,
        epochs=2,
        width=4,
        seeds=(0,),
        methods=("CNN XD",),
    )
    monkeypatch.setattr(resolution, "PRESETS", {"laptop": tiny})
    monkeypatch.setattr(resolution, "RESOLUTIONS", (32, 64))
    context = Context("laptop", tmp_path / "data")
    table = dataclasses.replace(resolution.TABLE, metric="error at 32")
    run = Reproduction(table, context, tmp_path / "runs", tmp_path / "results", "xdops reproduce resolution")
    results = run.run(lambda line: None, lambda: None)
    errors = {(row["setting"]["trained at"], row["metric"]): row["mean"] for row in results["rows"]}
    assert set(errors) == {(trained, f"error at {asked}") for trained in (32, 64) for asked in (32, 64)}
    assert errors[32, "error at 64"] == pytest.approx(errors[32, "error at 32"], rel=0.05)
