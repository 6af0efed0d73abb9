"""The tables of costs are measured, not written: parameters are counted, and searched networks run as such, not as their start."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from xdops.backbones import operator_cnn
from xdops.backbones.request import Request
from xdops.errors import XDError
from xdops.reproduce import cost
from xdops.reproduce.cost import CASES, Case, measure_cost, train_a_little
from xdops.reproduce.pde import BURGERS
from xdops.reproduce.tables import Context, find_table, solve_time
from xdops.reproduce.tables.solve_time import METRIC, time_network, time_solver

TINY = Case("tiny", Request("dense", 1, 1, (16, 16)), partial(operator_cnn, width=4, kernel=3), 1, 2, 10)


def test_the_cost_of_training_is_measured_and_parameters_are_counted() -> None:
    fresh = multiprocessing.get_context("spawn")  # a process that has held more memory before would hide this peak
    with ProcessPoolExecutor(1, fresh, max_tasks_per_child=1) as pool:
        conv, xd = pool.map(partial(train_a_little, TINY, batch_size=1024, steps=1), ("conv", "xd"))
    plain = sum(p.numel() for p in operator_cnn(TINY.request, 4, 3).parameters())
    per_layer = 3 * 2 * 4 * (16 // 2) * 4 * 2  # K, L, M; two dimensions; four factors of 8 blocks of 2 x 2; real pairs
    assert conv["parameters"] == plain
    assert xd["parameters"] == plain + 4 * per_layer
    activation = 1024 * 4 * 16 * 16 * 4  # of one layer; four are kept for the backward pass
    assert min(conv["bytes"], xd["bytes"]) > 4 * activation


class Clock:
    """A clock whose every reading is later by the next of some steps."""

    def __init__(self, *steps: float) -> None:
        self.steps, self.now = iter(steps), 0.0

    def perf_counter(self) -> float:
        self.now += next(self.steps)
        return self.now


def test_the_first_step_is_not_counted_and_the_median_of_the_others_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "time", Clock(0, 100, 1, 7, 1, 3, 1, 5))  # between steps and within them
    assert train_a_little(TINY, "conv", batch_size=2, steps=3)["seconds"] == 5


def test_a_network_that_does_not_fit_is_reported_with_its_reason() -> None:
    with pytest.raises(XDError, match=r"which failed: .*invalid literal"):
        measure_cost("darcy", "conv", "many", 1)  # type: ignore[arg-type]


def test_the_paper_s_networks_of_the_table_of_costs() -> None:
    rows = find_table("complexity").rows(Context("paper"))
    assert [(r.method, r.setting["network"]) for r in rows] == [
        (method, case.name) for case in CASES.values() for method in ("Conv", "XD")
    ]
    darcy = sum(p.numel() for p in CASES["darcy"].build(CASES["darcy"].request).parameters())
    assert darcy / 1e6 == pytest.approx(0.701, abs=5e-4)  # as the paper counts


def test_times_per_solution_are_measured_for_solver_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = BURGERS["laptop"]
    monkeypatch.setattr(solve_time, "time", Clock(0, 6))
    assert time_solver(preset.data, 2, seed=0)[METRIC] == 3
    for method in ("CNN", "FNO", "CNN XD"):
        monkeypatch.setattr(solve_time, "time", Clock(0, 100, *(1, 4) * 3, *(1, 9) * 2))
        assert time_network(method, preset, (64,), 2, seed=0)[METRIC] == 4 / preset.batch_size
    assert len(find_table("solve-time").rows(Context("laptop"))) == 12
