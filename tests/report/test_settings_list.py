"""What the page says of settings and machines: what has an effect, once, and of what was chosen among how many."""

from typing import Any

from xdops.report.result_page import machine_of, run_on
from xdops.report.settings_list import settings_list
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings


def line(method: str, architecture: int = 0, lr: float = 0.1, **more: Any) -> dict[str, Any]:
    search = SearchSettings(
        epochs=3,
        batch_size=8,
        weights=OptimizerSettings("sgd", lr, momentum=0.9),
        architecture=OptimizerSettings("adam", 1e-3),
        schedule=ScheduleSettings("cosine"),
        warmup=2,
    )
    settings = {"train": 50, "search": search.to_dict()}
    return {"method": method, "seeds": [0], "settings": settings, "architecture": architecture, **more}


def test_only_settings_with_an_effect_are_said() -> None:
    said = settings_list({"rows": [line("CNN"), line("CNN XD", 7)]})
    assert "- all rows: train 50, search.epochs 3, search.batch_size 8, search.weights.name sgd" in said
    assert "search.weights.momentum 0.9" in said
    assert "- CNN XD: search.architecture.name adam, search.architecture.lr 0.001, search.warmup 2\n" in said
    assert "- CNN:" not in said  # a backbone's architecture and warm-up mean nothing
    assert not any(word in said for word in ("betas", "alpha", "milestones", "accelerator", "null", "false"))


def test_of_a_chosen_row_its_own_settings_are_said_and_of_one_that_is_not_run_none() -> None:
    chosen = line("CNN", lr=0.2, tried={"lr 0.1": 1.0, "lr 0.2": 0.5}, chosen="lr 0.2")
    waiting = {"method": "CNN XD", "seeds": [], "settings": {"candidates": {"lr 0.1": {"train": 50}}}}
    said = settings_list({"rows": [chosen, line("FNO"), waiting]})
    assert "- CNN: search.weights.lr 0.2; chosen among 2 on validation" in said
    assert "candidates" not in said
    assert "CNN XD" not in said


def facts(processor: str) -> dict[str, Any]:
    return {"processor": processor, "cores": 2, "threads": 1, "torch": "2"}


def test_where_machines_are_mixed_every_row_says_its_own() -> None:
    old, new = facts("slow"), facts("fast")
    table = {"machines": [old, new, {**new, "python": "3"}]}
    assert [machine_of({"machines": [m]}, table) for m in (old, new)] == ["1", "2"]
    assert machine_of({"machines": [old, new]}, table) == "1, 2"
    assert machine_of({}, table) == "1 or 2"
    assert run_on(table) == "Machine 1: slow, 2 cores, 1 thread, torch 2.\n\nMachine 2: fast, 2 cores, 1 thread, torch 2.\n"
    assert run_on({"machines": [old]}) == "Run on: slow, 2 cores, 1 thread, torch 2.\n"
