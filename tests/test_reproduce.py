"""`xdops reproduce`: a miniature table from its rows to JSON, page and pictures, whatever stops it on the way."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from xdops.cli.main import main
from xdops.convert import XDConfig, convert_
from xdops.search import Metric, OptimizerSettings, Problem, SearchSettings, Split
from xdops.tasks import tables
from xdops.tasks.tables import Context, CurvesFigure, LineFigure, Prepared, SearchRow, Table

SETTINGS = SearchSettings(
    epochs=2,
    batch_size=8,
    weights=OptimizerSettings("adam", 1e-2),
    architecture=OptimizerSettings("adam", 1e-3),
    accelerator="cpu",
)
PAPER = {("CNN", 8): 0.3, ("CNN", 12): 0.5, ("CNN XD", 8): 0.1, ("CNN XD", 12): 0.1}


def relative_error(prediction: Tensor, y: Tensor) -> Tensor:
    return ((prediction - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()


def reversed_signals(examples: int, size: int, seed: int) -> Split:
    x = torch.randn(examples, 1, size, generator=torch.Generator().manual_seed(seed))
    return Split(x, x.flip(-1))


def prepare(method: str, size: int, seed: int, lr: float = 1e-2) -> Prepared:
    problem = Problem(
        reversed_signals(16, size, 1),
        reversed_signals(8, size, 2),
        reversed_signals(8, size, 2),
        relative_error,
        Metric("relative error", relative_error, False),
    )
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"))
    if method == "CNN XD":
        convert_(network, torch.zeros(1, 1, size), XDConfig())
    settings = dataclasses.replace(SETTINGS, weights=OptimizerSettings("adam", lr))
    return Prepared(problem, network, settings, {"method": method})


def search_row(method: str, size: int, lr: float = 1e-2) -> SearchRow:
    return SearchRow(
        method=method,
        setting={"resolution": size},
        seeds=(0, 1),
        settings={"epochs": SETTINGS.epochs, "lr": lr},
        paper=PAPER[method, size],
        prepare=lambda seed: prepare(method, size, seed, lr),
        report="last",
    )


def rows(context: Context) -> list[SearchRow]:
    return [search_row(method, size) for size in (8, 12) for method in ("CNN", "CNN XD")]


MINI = Table(
    "mini",
    "Reversed signals",
    "Table 0",
    "relative error",
    rows,
    figures=(LineFigure("resolution", "Error by resolution"), CurvesFigure({"resolution": 12}, "Curves")),
    notes={"laptop": "Everything is small."},
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """xdops reproduce, in a folder of its own; `table` can be replaced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(tables.TABLES, "mini", "test_reproduce:MINI")
    return lambda *arguments: main(["reproduce", *map(str, arguments)])


def test_a_table_is_run_and_written(run, capsys) -> None:
    assert run("mini", "-q") == 0
    found = json.loads(Path("results/mini-laptop.json").read_text())
    assert [(r["method"], r["setting"]["resolution"], r["seeds"], r["paper"]) for r in found["rows"]] == [
        (method, size, [0, 1], PAPER[method, size]) for size in (8, 12) for method in ("CNN", "CNN XD")
    ]
