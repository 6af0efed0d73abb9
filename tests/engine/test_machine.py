"""Rates are measured once per machine, kept, and measured again when what was kept makes no sense."""

import json
import threading

import pytest
import torch

from xdops.engine import machine
from xdops.engine.rates import Rates
from xdops.storage.cache import VARIABLE


@pytest.fixture
def measurements(monkeypatch, tmp_path):
    """How often the machine was measured; every measurement finds another rate."""
    found: list[Rates] = []

    def measure() -> Rates:
        found.append(Rates(gemm=1e10 * (1 + len(found))))
        return found[-1]

    monkeypatch.setattr(machine, "calibrate", measure)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    yield found
    machine._of_machine.cache_clear()


def in_a_new_process() -> Rates:
    machine._of_machine.cache_clear()
    return machine.measured_rates()


def kept(tmp_path):
    (path,) = (tmp_path / "cache").glob("rates-*.json")
    return path


def test_a_machine_is_measured_once_and_every_number_of_threads_for_itself(measurements, tmp_path):
    first = in_a_new_process()
    assert in_a_new_process() == first == measurements[0]
    assert len(measurements) == 1
    document = json.loads(kept(tmp_path).read_text())
    assert document["machine"]["threads"] == torch.get_num_threads()
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert machine.measured_rates() == measurements[1]
    finally:
        torch.set_num_threads(before)
    assert machine.measured_rates() == first


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"rates": {"gemm": -1}}', '{"rates": {"speed": 1}}', '{"rates": {"gemm": "fast"}}']
)
def test_what_makes_no_sense_is_measured_anew(measurements, tmp_path, content: str):
    in_a_new_process()
    kept(tmp_path).write_text(content)
    assert in_a_new_process() == measurements[1]
    assert in_a_new_process() == measurements[1]


def test_where_nothing_can_be_kept_the_default_rates_are_planned_with(measurements, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    assert in_a_new_process() == Rates()
    assert not measurements


def test_processes_that_come_at_once_plan_with_the_same_rates(measurements):
    found: list[Rates] = []
    threads = [threading.Thread(target=lambda: found.append(in_a_new_process())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [measurements[0]] * 4


def test_rates_that_are_set_hold_until_the_end_of_their_block():
    before = machine.rates()
    with machine.rates_restored():
        machine.set_rates(Rates(call=1.0))
        assert machine.rates().call == 1.0
    assert machine.rates() == before
