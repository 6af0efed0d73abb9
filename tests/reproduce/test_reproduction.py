"""`xdops reproduce`: a miniature table from its rows to JSON, page and pictures, whatever stops it on the way."""

import dataclasses
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mini_table
import pytest
import torch
from mini_table import (
    DISTURB,
    FIGURES,
    METHODS,
    SIZES,
    in_a_folder_of_its_own,
    prepare,
    put_among_the_tables,
    replace_rows,
    reproduce,
    results,
    rows,
    search_row,
    timeless,
)

from xdops.errors import XDError
from xdops.report.result_plots import method_colours
from xdops.report.rows import against_paper, here
from xdops.reproduce.reproduction import in_order, select
from xdops.reproduce.tables import Context, MeasuredRow, Prepared
from xdops.reproduce.tables.paper import PAPER

__all__ = ["in_a_folder_of_its_own"]  # a fixture that every test here uses


@pytest.fixture(scope="module", autouse=True)
def _quick_collection() -> Iterator[None]:
    """Every search collects garbage; what was imported before is none."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that an uninterrupted run leaves behind."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        put_among_the_tables(patch)
        assert reproduce("mini", "-q") == 0
    return folder


def whole_results(whole: Path) -> dict:
    return json.loads((whole / "results/mini-laptop.json").read_text())


def test_results_hold_every_row_with_its_seeds_beside_the_papers_figure(whole: Path) -> None:
    found = whole_results(whole)
    assert [(r["method"], r["setting"]["resolution"]) for r in found["rows"]] == [(m, s) for s in SIZES for m in METHODS]
    for row in found["rows"]:
        assert row["metric"] == "relative error"
        assert row["seeds"] == [0, 1]
        assert row["mean"] == pytest.approx(sum(row["values"]) / 2)
        assert row["spread"] == pytest.approx(abs(row["values"][0] - row["values"][1]) / 2**0.5)
        assert row["paper"] == FIGURES[row["method"], row["setting"]["resolution"]]
        assert (row["architecture"] > 0) == (row["method"] == "CNN XD")
        assert ("curves" in row) == (row["setting"]["resolution"] == 12)
        assert row["settings"] == {"epochs": 2, "weights": {"lr": 0.01}}
    finished = [json.loads(path.read_text()) for path in (whole / "runs/reproduce/mini-laptop").glob("*/*/result.json")]
    spent = sum(record["seconds"] for result in finished for record in result["history"])
    assert sum(row["seconds"] for row in found["rows"]) == pytest.approx(spent)
    assert found["machines"][0]["torch"] == torch.__version__


def test_two_runs_at_a_time_give_the_same_results(whole: Path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as without Ray
    assert reproduce("mini", "-q", "--workers", 2, "--cpus-per-run", torch.get_num_threads()) == 0
    assert timeless(results()) == timeless(whole_results(whole))


def test_the_value_of_a_row_is_the_test_metric_of_the_epoch_it_reports(whole: Path) -> None:
    [run] = (whole / "runs/reproduce/mini-laptop").glob("cnn-xd-resolution-12-*/seed1/result.json")
    assert whole_results(whole)["rows"][3]["values"][1] == json.loads(run.read_text())["test_at_last"]
    row = dataclasses.replace(search_row("CNN XD", 12), report="best")
    assert row.folder == run.parent.parent.name  # the same runs, read otherwise


def test_a_finished_table_is_shown_again_without_running_anything(whole: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("runs", "results"):
        shutil.copytree(whole / name, name)
    assert reproduce("mini", "-q") == 0
    printed = capsys.readouterr().out
    assert "[1/" not in printed
    assert "Reversed signals (Table 0), laptop scale" in printed
    assert "0.5000" in printed  # the paper's
    assert results() == whole_results(whole)


def test_the_page_and_its_picture_are_made_from_the_results_alone(whole: Path) -> None:
    shutil.copytree(whole / "results", "results")
    assert reproduce("--render") == 0
    page = Path("docs/results.md").read_text()
    assert page == (whole / "docs/results.md").read_text()
    picture = Path("docs/figures/mini-laptop.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert picture == (whole / "docs/figures/mini-laptop.png").read_bytes()
    for text in (
        "## Reversed signals, laptop scale",
        "Everything is small.",
        "```\nxdops reproduce mini --scale laptop\n```",
        "(figures/mini-laptop.png)",
        "|  | resolution 8 | resolution 12 |",
        "<br>paper: 0.5000",
        "- all rows: epochs 2, weights.lr 0.01",
        f"torch {torch.__version__}",
    ):
        assert text in page
    cnn, xd = (next(line for line in page.splitlines() if line.startswith(f"| {m} |")) for m in METHODS)
    means = {(r["method"], r["setting"]["resolution"]): r["mean"] for r in results()["rows"]}
    for i, size in enumerate(SIZES):
        best = cnn if means["CNN", size] < means["CNN XD", size] else xd
        assert [line.split("|")[2 + i].strip().startswith("**") for line in (cnn, xd)] == [best is cnn, best is xd]


@pytest.mark.parametrize("batch", [6, 15])  # within the first epoch of the second run, and the second epoch of the fourth
def test_an_interrupted_table_continues_with_the_same_command(whole: Path, batch: int, capsys: pytest.CaptureFixture) -> None:
    DISTURB.at(batch, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert reproduce("mini", "-q") == 130
    assert "Run the same command again to continue." in capsys.readouterr().out
    assert reproduce("mini", "-q") == 0
    assert f"[1/{8 - (batch - 1) // 4}]" in capsys.readouterr().out
    assert timeless(results()) == timeless(whole_results(whole))


def test_two_processes_share_a_table_and_one_that_is_killed_leaves_nothing_locked(
    whole: Path, capsys: pytest.CaptureFixture
) -> None:
    """The other process hangs in the second epoch of its first run, holding it; killed, its run continues from its checkpoint."""
    program = (
        "import sys, mini_table as t\n"
        "t.TABLES['mini'] = 'mini_table:MINI'\n"
        "t.DISTURB.at(3, lambda: (print('hangs', flush=True), sys.stdin.read()))\n"
        "t.reproduce('mini', '-q')\n"
    )
    paths = [str(Path(mini_table.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert other.stdout is not None
        assert any(line == "hangs\n" for line in other.stdout)
        assert reproduce("mini", "-q") == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert f"[1/8] CNN, resolution 8, seed 0: left to process {other.pid} on " in printed
        assert "7 of 8 runs are finished" in printed
        assert [row["seeds"] for row in results()["rows"]] == [[1], [0, 1], [0, 1], [0, 1]]
    finally:
        other.kill()
        other.communicate()
    assert reproduce("mini", "-q") == 0
    assert "[1/1] CNN, resolution 8, seed 0" in capsys.readouterr().out
    assert timeless(results()) == timeless(whole_results(whole))


def test_what_a_process_left_that_was_killed_when_its_run_had_just_finished_is_removed(whole: Path) -> None:
    shutil.copytree(whole, ".", dirs_exist_ok=True)
    run = next(Path().glob("runs/**/seed0"))
    for name in (".lock", ".lock.holder"):
        (run / name).write_text("")
    assert reproduce("mini", "-q") == 0
    assert not list(Path().rglob(".lock*"))


def test_other_settings_are_another_run_and_are_never_mixed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    replace_rows(monkeypatch, [search_row("CNN", 8, lr=1e-2)])
    assert reproduce("mini", "-q") == 0
    before = results()["rows"][0]["values"]
    capsys.readouterr()
    replace_rows(monkeypatch, [search_row("CNN", 8, lr=1e-1)])
    assert reproduce("mini", "-q", "--seeds", 0) == 0
    assert "weights.lr is 0.01 there, 0.1 here" in " ".join(capsys.readouterr().out.split())
    assert results()["rows"][0]["seeds"] == [0]
    assert results()["rows"][0]["values"][0] != before[0]
    replace_rows(monkeypatch, [search_row("CNN", 8, lr=1e-2)])
    assert reproduce("mini", "-q") == 0
    assert "[1/" not in capsys.readouterr().out  # the first runs are still there
    assert results()["rows"][0]["values"] == before


def test_what_the_settings_of_a_row_do_not_tell_is_noticed_in_its_unfinished_run(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    row = search_row("CNN", 8)
    replace_rows(monkeypatch, [row])
    DISTURB.at(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert reproduce("mini", "-q") == 130
    replace_rows(monkeypatch, [dataclasses.replace(row, prepare=lambda seed: prepare("CNN", 8, seed, 0.5))])
    assert reproduce("mini", "-q") == 2
    assert "settings.weights.lr is 0.01 there, 0.5 here" in capsys.readouterr().err


@pytest.mark.parametrize("makes_data", [False, True])
def test_data_that_are_missing_are_refused_before_anything_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path, makes_data: bool
) -> None:
    def missing(seed: int) -> Prepared:
        raise XDError("no digits", "digits", "download them")

    replace_rows(monkeypatch, [dataclasses.replace(search_row("CNN", 8), prepare=missing, makes_data=makes_data)])
    assert reproduce("mini") == 2
    said = capsys.readouterr()
    assert said.out == ("[1/2] CNN, resolution 8, seed 0\n" if makes_data else "")  # making data takes long: for whom is said first
    assert "given no digits" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_diverges_is_recorded_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    replace_rows(monkeypatch, [search_row("CNN", 8, lr=1e9), search_row("CNN XD", 8)])
    assert reproduce("mini", "-q") == 0
    bad, good = results()["rows"]
    assert bad["mean"] is None
    assert bad["seeds"] == []
    assert set(bad["diverged"]) == {"0", "1"}
    assert "epoch 1" in bad["diverged"]["0"]
    assert good["seeds"] == [0, 1]
    assert "CNN, resolution 8, seed 1 diverged: " + bad["diverged"]["1"] in Path("docs/results.md").read_text()
    capsys.readouterr()
    assert reproduce("mini", "-q") == 0
    assert "[1/" not in capsys.readouterr().out


def test_measurements_and_quoted_figures_make_rows_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    calls: list[int] = []

    def measure(seed: int) -> dict[str, float]:
        calls.append(seed)
        return {"minutes": 1.5 + seed, "parameters": 100.0}

    measured = MeasuredRow(
        method="XD",
        setting={"task": "a|b"},
        seeds=(0, 1),
        settings={"n": 1},
        measure=measure,
        paper={"minutes": 4.0, "memory": 5.5},
    )
    quoted = MeasuredRow(method="Conv", setting={"task": "a|b"}, seeds=(), settings={}, measure=measure, paper={"minutes": 1.4})
    replace_rows(monkeypatch, [measured, quoted])
    assert reproduce("mini") == 0
    assert reproduce("mini") == 0
    assert calls == [0, 1]
    lines = {(r["method"], r["metric"]): r for r in results()["rows"]}
    assert lines["XD", "minutes"]["mean"] == 2.0
    assert lines["XD", "minutes"]["paper"] == 4.0
    assert lines["XD", "parameters"]["paper"] is None
    assert lines["XD", "memory"]["mean"] is None
    assert lines["Conv", "minutes"]["seeds"] == []
    page = Path("docs/results.md").read_text()
    assert "|  | minutes | parameters | memory |" in page
    assert "| XD, task a\\|b | 2 ± 1<br>paper: 4 | 100 ± 0 | –<br>paper: 5.5 |" in page
    assert "0.50x" in capsys.readouterr().out


def test_more_seeds_can_be_added_and_the_command_says_so() -> None:
    assert reproduce("mini", "-q", "--rows", "cnn resolution 8", "--seeds", 0, 5) == 0
    found = results()
    assert found["rows"][0]["seeds"] == [0, 5]
    assert [row["seeds"] for row in found["rows"][1:]] == [[]] * 3
    assert found["command"] == "xdops reproduce mini --scale laptop --seeds 0 1 5"


def test_all_rows_of_the_first_seed_come_first() -> None:
    chosen = [search_row("CNN", 8), dataclasses.replace(search_row("CNN", 12), seeds=(3,)), search_row("CNN XD", 8)]
    order = [(row.label, seed) for row, seed in in_order(Path(), chosen, ())]
    assert [seed for _, seed in order] == [0, 3, 0, 1, 1]
    assert order[1] == ("CNN, resolution 12", 3)
    assert len(in_order(Path(), chosen, (7, 8, 9))) == 9


def test_rows_are_chosen_by_words_of_their_name_or_by_a_glob() -> None:
    every = rows(Context("laptop"))

    def names(*patterns: str) -> list[str]:
        return [row.slug for row in select(every, patterns)]

    assert len(names()) == 4
    assert names("CNN XD") == ["cnn-xd-resolution-8", "cnn-xd-resolution-12"]
    assert names("cnn-resolution") == ["cnn-resolution-8", "cnn-resolution-12"]
    assert names("CNN XD,resolution=12") == ["cnn-xd-resolution-12"]
    assert names("*-8") == ["cnn-resolution-8", "cnn-xd-resolution-8"]
    assert names("cnn-xd-*", "12") == ["cnn-xd-resolution-8", "cnn-resolution-12", "cnn-xd-resolution-12"]
    with pytest.raises(XDError, match="which names no row"):
        select(every, ["resolution-1"])  # not the beginning of 12


def test_the_list_has_every_exhibit_of_the_paper_with_its_state(whole: Path, capsys: pytest.CaptureFixture) -> None:
    assert reproduce("--list") == 0
    printed = capsys.readouterr().out
    places = [exhibit.place for exhibit in PAPER]
    assert [p for p in places if p.startswith("Table")] == [f"Table {i}" for i in range(1, 14)]
    assert {p.split()[1] for p in places if p.startswith("Figure")} == set("12345")
    assert all(place in printed for place in places)
    assert "mini: available, not run" in " ".join(printed.split())
    shutil.copytree(whole / "results", "results")
    found = results()
    assert reproduce("--list") == 0
    assert "mini: 4 of 4 rows of the paper, laptop scale" in " ".join(capsys.readouterr().out.split())
    found["rows"][0] |= {"seeds": [0]}
    del found["rows"][0]["digest"]
    Path("results/mini-laptop.json").write_text(json.dumps(found))
    assert reproduce("--list") == 0
    assert "mini: 4 of 4 rows of the paper, 7 of 8 runs finished, laptop scale" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no table"),
        (["nothing"], "table 'nothing'"),
        (["mini", "--rows", "transformer"], "cnn-resolution-8"),
        (["mini", "--scale", "paper"], "table mini at scale paper"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(arguments: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert reproduce(*arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()
    assert not Path("results").exists()


def test_an_unknown_scale_and_a_broken_results_file_are_refused(capsys: pytest.CaptureFixture) -> None:
    assert reproduce("mini", "--scale", "huge") == 2
    Path("results").mkdir()
    Path("results/mini-laptop.json").write_text('{"format": 1,')
    assert reproduce("--render") == 2
    assert "mini-laptop.json, which cannot be read" in capsys.readouterr().err


def test_numbers_are_shown_as_the_paper_prints_them() -> None:
    line = {"mean": 0.01412, "spread": 0.0003, "paper": 0.0141, "diverged": {}}
    assert here(line, percent=False) == "0.0141 ± 0.0003"
    assert against_paper(line, percent=False) == "1.00x"
    share = {"mean": 0.6304, "spread": 0.0101, "paper": 0.63, "diverged": {}}
    assert here(share, percent=True) == "63.0 ± 1.0"
    assert against_paper(share, percent=True) == "+0.0"
    assert here(line | {"mean": 1.2e-5, "spread": 2e-6}, percent=False) == "1.2e-05 ± 2e-06"
    assert here(line | {"mean": None, "diverged": {"0": "why"}}, percent=False) == "diverged"


def test_methods_keep_apart_by_colour() -> None:
    methods = ["CNN", "FNO", "DARTS", "CNN XD", "FNO XD"]
    assert len(set(method_colours(methods).values())) == len(methods)
