"""Results of runs that are elsewhere stay, where they are of the same rows; hours stand beside the paper's."""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import bad_world
import pytest
from mini_table import in_a_folder_of_its_own, replace_rows, reproduce, results, search_row, timeless  # noqa: F401

from xdops.measuring.duration import hours
from xdops.report.plan import write_plan
from xdops.reproduce.earlier import together
from xdops.reproduce.plan import Planned
from xdops.reproduce.table import Row, chosen_among


def means() -> dict[str, float | None]:
    return {f"{line['method']} {line['setting']['resolution']}": line["mean"] for line in results()["rows"]}


def test_rows_without_runs_here_keep_what_was_found_elsewhere_if_their_settings_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, other, changed = search_row("CNN", 8), search_row("CNN", 12), search_row("CNN XD", 12)
    replace_rows(monkeypatch, [row, other, changed])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    before, machines = means(), results()["machines"]
    shutil.rmtree("runs")
    more = dataclasses.replace(other, settings={**other.settings, "known later": True}, hours=0.5)
    replace_rows(monkeypatch, [row, more, search_row("CNN XD", 12, lr=0.5)])
    write_plan(Path("results/plan-paper.json"), "paper", 10.0, {"burgers": [Planned("CNN", 2, 3, 600, 4e15, 7.0)]})
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "cnn-resolution-8") == 0
    assert means() == before | {"CNN XD 12": None}
    assert results()["machines"] == machines
    assert [line["paper_hours"] for line in results()["rows"]] == [None, 0.5, None]
    page = Path("docs/results.md").read_text()
    assert "| the paper's hours |" in page
    assert "the paper on a V100" in page
    assert "In all 2 runs, 600 steps, 4 Pflop: about 7 h" in page


def test_kept_rows_say_which_machine_they_were_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(processor: str, row: str) -> None:
        monkeypatch.setattr("xdops.reproduce.runs.machine_facts", lambda: facts | {"processor": processor})
        assert reproduce("mini", "-q", "--seeds", 0, "--rows", row) == 0
        shutil.rmtree("runs")

    facts = {"cores": 2, "threads": 1, "torch": "2"}
    on("slow", "cnn-resolution-8")
    on("fast", "cnn-xd-resolution-8")
    on("third", "cnn-resolution-12")
    found = {
        name: [m["processor"] for m in line.get("machines", ())] for name, line in zip(means(), results()["rows"], strict=True)
    }
    assert found == {"CNN 8": ["slow"], "CNN XD 8": ["fast"], "CNN 12": ["third"], "CNN XD 12": []}
    assert {m["processor"] for m in results()["machines"]} == {"slow", "fast", "third"}
    page = Path("docs/results.md").read_text()
    number = re.search(r"Machine (\d): slow", page)
    assert number
    assert re.search(rf"\| CNN \| resolution 8 \|.*\| {number[1]} \|\n", page)


def test_tuned_rows_without_runs_here_keep_what_was_found_elsewhere_if_they_would_choose_among_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tuned(method: str, resolution: int, *steps: float) -> Row:
        return chosen_among({f"step size {lr}": search_row(method, resolution, lr=lr) for lr in steps})

    run, two = search_row("CNN XD", 12), (0.001, 0.01)
    replace_rows(monkeypatch, [tuned("CNN", 8, *two), tuned("CNN", 12, *two), tuned("CNN XD", 8, *two), run])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    before = means()
    shutil.rmtree("runs")
    replace_rows(monkeypatch, [tuned("CNN", 8, *two), tuned("CNN", 12, 0.001, 0.1), tuned("CNN XD", 8, *two, 0.1), run])
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "cnn-xd-resolution-12") == 0
    assert means() == before | {"CNN 12": None, "CNN XD 8": None}


def test_hours_are_short_and_never_nothing() -> None:
    assert [hours(value) for value in (None, 0.001, 0.25, 12.3, 1234.5)] == ["–", "< 0.01", "0.25", "12", "1,234"]


def test_results_that_cannot_be_read_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").mkdir()
    Path("results/mini-laptop.json").write_text(json.dumps({"rows": 3}))
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "cnn-resolution-8") == 2
    assert "mini-laptop.json" in capsys.readouterr().err
    assert not Path("runs").exists()


def first(document: dict) -> dict:
    return document["rows"][0]


#: What is done to results by hand, and a word of the complaint.
EDITS = {
    "a figure": (lambda d: first(d).update(mean=0.01), "does not verify"),
    "a setting": (lambda d: first(d)["setting"].update(resolution=99), "does not verify"),
    "the paper's figure": (lambda d: first(d).update(paper=9.0), "does not verify"),
    "which is better": (lambda d: d.update(lower_is_better=False), "does not verify"),
    "another format": (lambda d: d.update(format=2), "does not verify"),
    "rows that are none": (lambda d: d.update(rows=[7]), "makes no sense"),
    "another table": (lambda d: (d.update(table="other"), d.pop("digest")), "holds table 'other'"),
    "no name": (lambda d: (d.pop("table"), d.pop("digest")), "'table' is missing"),
    "tags": (lambda d: (d.update(note="<img src=x>"), d.pop("digest")), "the text '<img src=x>'"),
    "colours": (lambda d: (d.update(title="\x1b[31m"), d.pop("digest")), r"the text '\\x1b"),
}


def test_edited_results_are_noticed_by_all_who_read_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(monkeypatch, [search_row("CNN", 8)])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    path = Path("results/mini-laptop.json")
    good, page = path.read_text(), Path("docs/results.md").read_text()
    for what, (change, message) in EDITS.items():
        path.write_text(good)
        bad_world.rewrite(path, change)
        assert reproduce("--render") == 2, what
        assert re.search(message, capsys.readouterr().err), what
        assert Path("docs/results.md").read_text() == page
    bad_world.rewrite(path, lambda d: first(d).update(mean=0.01))
    assert reproduce("mini", "-q", "--seeds", 0) == 2
    path.write_text(good)
    bad_world.rewrite(path, lambda d: (d.pop("digest"), first(d).pop("digest")))  # as earlier versions wrote them
    assert reproduce("--render") == 0
    assert Path("docs/results.md").read_text() == page


def test_a_whole_run_of_another_seed_is_not_taken_for_this_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(monkeypatch, [search_row("CNN", 8)])
    assert reproduce("mini", "-q") == 0
    (one,) = Path("runs/reproduce/mini-laptop").glob("*/seed0")
    other = one.with_name("seed1")
    machine = (other / "machine.json").read_bytes()
    shutil.rmtree(other)
    shutil.copytree(one, other)
    (other / "machine.json").write_bytes(machine)
    assert reproduce("mini", "-q") == 2
    assert re.search(r"seed1, which holds another run \(seed is 0 there, 1 here\)", capsys.readouterr().err)


def test_a_run_of_another_method_with_equal_settings_is_not_taken_for_this_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(monkeypatch, [search_row("CNN", 8), search_row("CNN XD", 8)])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    found, home = results(), Path("runs/reproduce/mini-laptop")
    (own,), (other,) = home.glob("cnn-res*/seed0"), home.glob("cnn-xd-*/seed0")
    machine = (own / "machine.json").read_bytes()
    shutil.rmtree(own)
    shutil.copytree(other, own)
    (own / "machine.json").write_bytes(machine)
    assert reproduce("mini", "-q", "--seeds", 0) == 2
    assert re.search(
        r"seed0, which holds another run \(its run.json is not that of CNN, resolution 8, seed 0\)", capsys.readouterr().err
    )
    assert results() == found


def test_a_page_that_only_begins_like_ours_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs").mkdir()
    Path("docs/results.md").write_text("# Results\n\nof my own experiments")
    assert reproduce("--render") == 2
    assert "results.md was not written by xdops" in capsys.readouterr().err


def found() -> list[dict]:
    """All but means of means and curves, which round otherwise: the next test has those."""
    return [
        {name: value for name, value in line.items() if name not in ("novelty", "curves")} for line in timeless(results())["rows"]
    ]


def test_seeds_that_the_results_lack_are_run_and_put_together_with_those_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = {f"step size {lr}": search_row("CNN", 8, lr=lr) for lr in (1e-6, 3e-2)}
    replace_rows(monkeypatch, [chosen_among(candidates), search_row("CNN XD", 8), search_row("CNN", 12)])
    assert reproduce("mini", "-q") == 0
    whole = found()
    shutil.rmtree("runs")
    shutil.rmtree("results")
    assert reproduce("mini", "-q", "--seeds", 0, "--rows", "resolution-8") == 0
    shutil.rmtree("runs")
    assert reproduce("mini", "-q", "--missing") == 0
    made = sorted(f"{path.parent.name[:-9]}/{path.name}" for path in Path("runs/reproduce/mini-laptop").glob("*/seed*"))
    assert made == [
        "cnn-resolution-12/seed0", "cnn-resolution-12/seed1", "cnn-resolution-8/seed1", "cnn-xd-resolution-8/seed1",
    ]  # fmt: skip
    assert found() == whole
    assert reproduce("mini", "-q", "--missing") == 0
    assert found() == whole


def test_seeds_that_were_run_again_replace_their_own_and_leave_the_others() -> None:
    def line(**values: float) -> dict[str, Any]:
        seeds = {int(name[1:]): value for name, value in values.items()}
        fixed = {"diverged": {}, "machines": [], "weights": 7, "seconds": 10.0 * len(seeds), "seconds_per_epoch": float(len(seeds))}
        examples, curves = {"a": sum(seeds.values())}, {"train": {"epoch": [1, 2], "value": [float(len(seeds)), 0.0]}}
        return {"seeds": list(seeds), "values": list(seeds.values()), "examples": examples, "curves": curves, **fixed}

    both = together(line(s0=1.0, s1=5.0), line(s1=2.0, s2=3.0, s3=4.0))
    assert (both["seeds"], both["values"], both["mean"]) == ([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], 2.5)
    assert (both["weights"], both["seconds"], both["seconds_per_epoch"]) == (7, 40.0, 0.25 * 2 + 0.75 * 3)
    assert both["examples"] == {"a": 0.25 * 6.0 + 0.75 * 9.0}
    assert both["curves"]["train"]["value"] == [0.25 * 2 + 0.75 * 3, 0.0]
    new = line(s0=9.0, s1=9.0)
    assert together(line(s0=1.0), new) == new
