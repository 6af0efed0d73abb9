"""A miniature table of `xdops reproduce`: signals to be reversed, in rows that train for a moment."""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from xdops.cli.main import main
from xdops.convert import XDConfig, convert_
from xdops.reproduce.tables import TABLES, Context, CurvesFigure, LineFigure, Prepared, Row, SearchRow, Table
from xdops.search import Metric, OptimizerSettings, Problem, SearchSettings, Split

METHODS, SIZES = ("CNN", "CNN XD"), (8, 12)
FIGURES = {("CNN", 8): 0.3, ("CNN", 12): 0.5, ("CNN XD", 8): 0.1, ("CNN XD", 12): 0.1}


def relative_error(prediction: Tensor, y: Tensor) -> Tensor:
    return ((prediction - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()


def reversed_signals(examples: int, size: int, seed: int) -> Split:
    x = torch.randn(examples, 1, size, generator=torch.Generator().manual_seed(seed))
    return Split(x, x.flip(-1))


class Disturbance:
    """Counts training batches as an augmentation that changes nothing; at one of them it does what is asked, once."""

    def __init__(self) -> None:
        self.left, self.action = -1, lambda: None

    def at(self, batch: int, action: Callable[[], object]) -> None:
        self.left, self.action = batch, action

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        self.left -= 1
        if self.left == 0:
            self.action()
        return x


DISTURB = Disturbance()


def prepare(method: str, size: int, seed: int, lr: float) -> Prepared:
    parts = (reversed_signals(16, size, 1), reversed_signals(8, size, 2), reversed_signals(8, size, 2))
    problem = Problem(*parts, relative_error, Metric("error", relative_error, False), DISTURB)
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"))
    if method == "CNN XD":
        convert_(network, torch.zeros(1, 1, size), XDConfig())
    adam, slow = OptimizerSettings("adam", lr), OptimizerSettings("adam", 1e-3)
    settings = SearchSettings(epochs=2, batch_size=8, weights=adam, architecture=slow, accelerator="cpu")
    return Prepared(problem, network, settings, {"method": method})


def search_row(method: str, size: int, lr: float = 1e-2, report: str = "last") -> SearchRow:
    return SearchRow(
        method=method,
        setting={"resolution": size},
        seeds=(0, 1),
        settings={"epochs": 2, "weights": {"lr": lr}},
        paper=FIGURES[method, size],
        prepare=lambda seed: prepare(method, size, seed, lr),
        report=report,  # type: ignore[arg-type]
    )


def rows(context: Context) -> list[Row]:
    return [search_row(method, size) for size in SIZES for method in METHODS] if context.scale == "laptop" else []


MINI = Table(
    "mini",
    "Reversed signals",
    "Table 0",
    "relative error",
    rows,
    figures=(LineFigure("resolution", "Error by resolution", log_x=True), CurvesFigure({"resolution": 12}, "At resolution 12")),
    notes={"laptop": "Everything is small."},
)


def reproduce(*arguments: object) -> int:
    return main(["reproduce", *map(str, arguments)])


def results(scale: str = "laptop") -> dict:
    return json.loads(Path(f"results/mini-{scale}.json").read_text())


def timeless(found: dict) -> dict:
    """Times and the machine's facts differ between runs; nothing else may."""
    kept = [{k: v for k, v in row.items() if k not in ("seconds", "seconds_per_epoch", "digest")} for row in found["rows"]]
    return {k: v for k, v in found.items() if k not in ("machines", "digest")} | {"rows": kept}


def replace_rows(monkeypatch: pytest.MonkeyPatch, new: list[Row]) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MINI", dataclasses.replace(MINI, rows=lambda context: new))


def put_among_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "mini", f"{__name__}:MINI")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, and the miniature among the tables."""
    monkeypatch.chdir(tmp_path)
    put_among_the_tables(monkeypatch)
    DISTURB.at(-1, lambda: None)
