"""`xdops plan` counts what a table would take, without any data and without writing anything."""

from pathlib import Path

import pytest
import torch
from search_support import SETTINGS, make_network, make_problem
from torch import nn

from xdops.cli.main import main
from xdops.report.plan import plan_section, write_plan
from xdops.reproduce.plan import FEW, MORE, Planned, measure, plan_row
from xdops.reproduce.table import Prepared, SearchRow, Sketch


def row(network: nn.Module) -> SearchRow:
    sketch = Sketch(Prepared(make_problem(), network, SETTINGS, {}), examples=100)
    prepare = {"prepare": lambda seed: sketch.prepared, "sketch": lambda: sketch}
    return SearchRow(method="CNN", setting={}, seeds=(0, 1, 2), settings={}, report="last", **prepare)


def test_runs_steps_and_operations_are_counted_from_the_settings() -> None:
    planned = plan_row(row(make_network(searched=False)), runs=3)
    assert (planned.runs, planned.epochs) == (3, SETTINGS.epochs)
    assert planned.steps == 3 * SETTINGS.epochs * -(-100 // SETTINGS.batch_size)
    assert planned.hours > 0
    # By hand, per example: multiplications and additions of every layer forward, for its input (but not the first's) and weights.
    first, second, last = 2 * 12 * 4 * 1 * 3, 2 * 12 * 4 * 4 * 3, 2 * 48 * 3
    assert planned.flops == pytest.approx(3 * SETTINGS.epochs * 100 * (2 * first + 3 * second + 3 * last))


def test_xd_operations_count_what_their_plan_says() -> None:
    network = make_network()
    prepared = Prepared(make_problem(), network, SETTINGS, {})
    _, flops = measure(prepared)
    for count in (FEW, MORE):
        linear = 3 * 2 * 48 * 3 * count
        planned = network[0].plan_for(torch.zeros(count, 1, 12)).flops
        planned += network[3].plan_for(torch.zeros(count, 4, 12, requires_grad=True)).flops
        assert flops.of(1, count) == pytest.approx(linear + planned)
    assert flops.once > 0  # matrices are made once for all examples


def test_a_table_is_planned_without_its_data(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "burgers", "--scale", "laptop", "--data-dir", "nowhere", "--tflops", "20"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "CNN XD, resolution 256" in printed
    assert "on one GPU at 20 Tflop/s" in printed
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_kept_and_becomes_a_part_of_the_page(tmp_path: Path) -> None:
    rows = [Planned("CNN", 2, 3, 600, 4e15, 7.0), Planned("XD", 2, 3, 600, 8e15, 14.0), Planned("no data", 1, 3, missing="no file")]
    write_plan(tmp_path / "plan-paper.json", "paper", 10.0, {"burgers": rows})
    section = plan_section(tmp_path / "plan-paper.json")
    assert "| burgers | 3 | 4 | 1,200 | 12 | 21 h | 20 min |" in section
    assert "In all 4 runs, 1,200 steps, 12 Pflop (1 row not counted, whose data are missing): about 21 h" in section
    assert "burgers: no data" in section
    assert plan_section(tmp_path / "none.json") == ""


def test_a_rate_that_is_none_is_refused(capsys) -> None:
    assert main(["plan", "burgers", "--tflops", "0"]) == 2
    assert "--tflops 0" in capsys.readouterr().err
