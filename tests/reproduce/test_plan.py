"""`xdops plan` counts what a table would take, without any data and without writing anything."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from search_support import SETTINGS, make_network, make_problem
from torch import nn

from xdops.cli.main import main
from xdops.report.plan import plan_section, read_plan, write_plan
from xdops.reproduce import plan
from xdops.reproduce.plan import LONG, BatchCost, Known, Planned, by_typicality, measure, plan_row
from xdops.reproduce.table import Context, Prepared, Row, SearchRow, Sketch
from xdops.reproduce.tables import protein
from xdops.search import Sequences


def row(network: nn.Module) -> SearchRow:
    sketch = Sketch(Prepared(make_problem(), network, SETTINGS, {}), examples=100)
    prepare = {"prepare": lambda seed: sketch.prepared, "sketch": lambda: sketch}
    return SearchRow(method="CNN", setting={}, seeds=(0, 1, 2), settings={}, report="last", **prepare)


def test_runs_steps_and_operations_are_counted_from_the_settings() -> None:
    planned = plan_row(row(make_network(searched=False)), 3, {})
    assert (planned.runs, planned.epochs) == (3, SETTINGS.epochs)
    assert planned.steps == 3 * SETTINGS.epochs * -(-100 // SETTINGS.batch_size)
    assert planned.hours > 0
    # By hand, per example: multiplications and additions of every layer forward, for its input (but not the first's) and weights.
    first, second, last = 2 * 12 * 4 * 1 * 3, 2 * 12 * 4 * 4 * 3, 2 * 48 * 3
    assert planned.flops == pytest.approx(3 * SETTINGS.epochs * 100 * (2 * first + 3 * second + 3 * last))


def test_xd_operations_count_what_their_plan_says() -> None:
    network = make_network()
    flops = measure(Prepared(make_problem(), network, SETTINGS, {})).flops
    for count in (1, SETTINGS.batch_size):
        linear = 3 * 2 * 48 * 3 * count
        planned = network[0].plan_for(torch.zeros(count, 1, 12)).flops
        planned += network[3].plan_for(torch.zeros(count, 4, 12, requires_grad=True)).flops
        assert flops.of(1, count) == pytest.approx(linear + planned)
    assert flops.once > 0  # matrices are made once for all examples


def test_a_network_is_measured_once_for_all_rows_that_train_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Prepared] = []

    def spy(prepared: Prepared) -> plan.Costs:
        measured.append(prepared)
        return plan.Costs(BatchCost(1.0, 0.0), BatchCost(2.0, 0.0))

    monkeypatch.setattr(plan, "measure", spy)
    known: Known = {}
    rows = [plan_row(row(make_network(searched)), 3, known) for searched in (True, False, True)]
    assert len(measured) == 2
    assert rows[0] == rows[2]


def test_a_step_that_takes_long_is_measured_once_and_stands_for_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1000, 7))
    monkeypatch.setattr(plan.time, "perf_counter", lambda: next(ticks) * LONG)
    costs = measure(Prepared(make_problem(), make_network(), SETTINGS, {}))
    assert next(ticks) == 14  # one step was timed
    assert costs.seconds.of(1, 1) == pytest.approx(7 * LONG)
    ratio = costs.flops.of(1, SETTINGS.batch_size) / costs.flops.of(1, 1)
    assert costs.seconds.of(1, SETTINGS.batch_size) == pytest.approx(7 * LONG * ratio)


def test_what_examples_take_lies_between_nothing_and_all_of_it() -> None:
    assert BatchCost.between((1, 3.0), (4, 6.0)) == BatchCost(2.0, 1.0)
    assert BatchCost.between((1, 3.0), (4, 2.0)) == BatchCost(3.0, 0.0)  # whatever else the machine did
    assert BatchCost.between((1, 3.0), (4, 60.0)) == BatchCost(0.0, 3.0)
    assert BatchCost.between((1, 3.0), (1, 3.0)) == BatchCost(3.0, 0.0)


def test_sequences_of_about_the_mean_length_are_measured_first() -> None:
    steps = torch.zeros(24, 2)
    assert by_typicality(Sequences(steps, steps, (1, 10, 7, 6))).tolist() == [3, 2, 1, 0]
    assert by_typicality(make_problem().train)[:3].tolist() == [0, 1, 2]


def test_proteins_are_planned_without_pdnets_download() -> None:
    found = next(r for r in protein.rows(Context("paper", Path("nowhere"))) if r.slug == "resnet-xd-proteins-psicov-depth-4")
    assert isinstance(found, SearchRow)
    assert found.sketch is not None
    sketch = found.sketch()
    assert sketch.prepared.problem.train.batch(torch.zeros(2).long(), torch.Generator()).x.shape == (2, 57, 128, 128)
    assert sketch.examples == 3356


def test_a_table_with_the_runs_of_another_is_planned_by_itself_and_counted_once_in_all(monkeypatch) -> None:
    planned: list[str] = []

    def instead(rows: Sequence[Row], known: Known) -> Iterator[Planned]:
        planned.append(rows[0].label)
        yield Planned(rows[0].label, 1, 1, 1, 1.0, 1.0)

    monkeypatch.setattr("xdops.cli.plan.plan_rows", instead)
    assert main(["plan", "music"]) == main(["plan", "sequences"]) == 0
    assert planned == ["undilated TCN, data JSB Chorales (loss)"] * 2
    planned.clear()
    assert main(["plan"]) == 0
    assert planned.count("undilated TCN, data JSB Chorales (loss)") == 1


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
    write_plan(tmp_path / "plan-paper.json", "paper", 10.0, {"music": rows})  # whose runs are those of another table
    assert plan_section(tmp_path / "plan-paper.json") == section


def test_tables_are_kept_beside_those_of_this_machine_at_this_scale_alone(tmp_path: Path) -> None:
    file, row = tmp_path / "plan.json", Planned("CNN", 2, 3, 600, 4e15, 7.0)
    write_plan(file, "paper", 10.0, {"burgers": [row]})
    write_plan(file, "paper", 20.0, {"darcy": [row]})
    assert list(read_plan(file)["tables"]) == ["burgers", "darcy"]
    assert read_plan(file)["tflops"] == 20.0
    write_plan(file, "laptop", 20.0, {"music": [row]})
    assert list(read_plan(file)["tables"]) == ["music"]


@pytest.mark.parametrize(
    "content", ['{"machine": {}}', '{"machine": {}, "tables": 3}', '{"machine": {}, "tables": {}, "digest": "0"}']
)
def test_a_file_that_is_no_plan_is_refused_before_anything_is_measured(content: str, tmp_path: Path, monkeypatch, capsys) -> None:
    def measured(*_: Any) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr("xdops.cli.plan.plan_rows", measured)
    (tmp_path / "plan.json").write_text(content)
    assert main(["plan", "burgers", "--json", str(tmp_path / "plan.json")]) == 2
    assert "plan.json" in capsys.readouterr().err
    assert (tmp_path / "plan.json").read_text() == content


def test_a_rate_that_is_none_is_refused(capsys) -> None:
    assert main(["plan", "burgers", "--tflops", "0"]) == 2
    assert "--tflops 0" in capsys.readouterr().err
