"""Networks that are trained on 256 points are judged on finer grids of the same samples."""

import dataclasses
from pathlib import Path

import pytest

from xdops.pde.burgers import BurgersSettings
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.table import Context
from xdops.reproduce.tables import resolution


@pytest.mark.trains
def test_a_searched_network_loses_little_on_a_finer_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
    monkeypatch.setattr(resolution, "TRAINED_AT", 32)
    monkeypatch.setattr(resolution, "ASKED_AT", (64,))
    context = Context("laptop", tmp_path / "data")
    run = Reproduction(resolution.TABLE, context, tmp_path / "runs", tmp_path / "results", "xdops reproduce resolution")
    results = run.run(lambda line: None, lambda: None)
    means = {row["metric"]: row["mean"] for row in results["rows"]}
    assert means["at 64"] == pytest.approx(means["relative L2 error"], rel=0.05)
