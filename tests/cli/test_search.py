"""`xdops search` and `xdops predict` on small real data: from a file to a table, a sentence, a report and predictions."""

import io
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from search_data import KINDS, signals

from xdops.cli.main import main
from xdops.cli.search import Search
from xdops.cli.words import fill
from xdops.data.own import DataSettings
from xdops.experiments.finished import Finished
from xdops.experiments.recipes import find_task
from xdops.search.children import check_sendable
from xdops.search.records import Records
from xdops.storage.lock import is_held
from xdops.workers import Job

COMMON = ["--seeds", "1", "--epochs", "2", "--batch-size", "16", "--depth", "1", "1", "1", "-q"]
SMALL = [*COMMON, "--backbone", "small"]


def save(folder: Path, arrays: dict[str, np.ndarray]) -> str:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return str(path)


def search(*arguments: object) -> int:
    return main(["search", *map(str, arguments)])


def predict(*arguments: object) -> int:
    return main(["predict", *map(str, arguments)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_on_users_data_ends_with_a_table_a_sentence_a_report_and_predictions(kind: str, tmp_path: Path, capsys) -> None:
    arrays = KINDS[kind]()
    data, out = save(tmp_path, arrays), tmp_path / "out"
    flags = COMMON if kind.startswith("dense") else SMALL
    assert search(data, "--out", out, *flags, *(["--spaces", "backbone,xd"] if kind == "dense_2d" else [])) == 0
    printed = capsys.readouterr().out
    assert "(detected; --kind overrules)" in printed
    assert "XD came out" in printed or "XD made no clear difference" in printed
    assert "one seed cannot tell skill from chance" in " ".join(printed.split())

    results = json.loads((out / "results.json").read_text())
    by_space = {row["space"]: row for row in results["spaces"]}
    assert by_space["backbone"]["architecture"] == 0 < by_space["xd"]["architecture"]
    assert by_space["backbone"]["weights"] == by_space["xd"]["weights"]
    assert (out / "runs" / "xd-seed0" / "metrics.jsonl").read_text().count("\n") == 2
    html = (out / "report.html").read_text()
    assert results["verdict"].replace("'", "&#x27;") in html

    metric = Finished.open(out).reading.objective().metric
    for run in results["runs"]:  # what is compared example by example is what was reported
        scores = Finished.open(out).scores(run["space"])[run["seed"]]
        assert metric.of(sum(scores.totals), sum(scores.units)) == pytest.approx(run["test_at_best"], rel=1e-5)

    predictions = tmp_path / "predictions.npz"
    assert predict(out, data, "-o", predictions, "--space", "xd") == 0
    got = np.load(predictions, allow_pickle=False)
    if kind in ("signals", "images"):
        assert set(got["label"].tolist()) <= set(arrays["y"].tolist())
        np.testing.assert_allclose(got["probability"].sum(1), 1, rtol=1e-5)
        np.testing.assert_array_equal(got["classes"][got["probability"].argmax(1)], got["label"])
    else:
        assert got["prediction"].shape[0] == len(arrays["x"])
        assert abs(got["prediction"].mean() - arrays["y"].mean()) < 3 * arrays["y"].std()  # in the units of the data


@pytest.mark.trains
def test_predictions_on_the_test_part_have_the_accuracy_that_the_search_reported(tmp_path: Path) -> None:
    parts = {}
    for i, part in enumerate(("train", "val", "test")):
        parts |= {f"{name}_{part}": array for name, array in signals(n=40, seed=i).items()}
    data, out = save(tmp_path, parts), tmp_path / "out"
    assert search(data, "--out", out, *SMALL, "--spaces", "xd", "--lr", 0.03, "--epochs", 4) == 0
    assert predict(out, data, "-o", tmp_path / "p.npz", "--x-name", "x_test") == 0
    reported = json.loads((out / "results.json").read_text())["runs"][0]["test_at_best"]
    assert (np.load(tmp_path / "p.npz")["label"] == parts["y_test"]).mean() == pytest.approx(reported)
    assert reported > 0.8


def test_settings_hold_the_command_that_repeats_the_search_exactly(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path, signals())
    assert search("data.npz", "--out", "first run", *SMALL, "--spaces", "xd", "--split", 0.5, 0.25, 0.25, "--resume") == 0
    first = tmp_path / "first run"
    command = json.loads((first / "settings.json").read_text())["command"]
    assert command.startswith("xdops search data.npz --spaces xd --seeds 1 --epochs 2 --out 'first run' --split 0.5 0.25 0.25")
    words = [w if w != "first run" else "second" for w in shlex.split(command)[1:]]
    assert main(words) == 0
    numbers = [json.loads((folder / "results.json").read_text())["spaces"][0]["test"] for folder in (first, tmp_path / "second")]
    assert numbers[0] == numbers[1]


def test_resume_keeps_finished_runs_and_adds_spaces_and_seeds(tmp_path: Path, capsys) -> None:
    data, out = save(tmp_path, signals()), tmp_path / "out"
    assert search(data, "--out", out, *SMALL, "--spaces", "backbone", "--resume") == 0
    assert "nothing to continue" in capsys.readouterr().out  # a folder's name may have been mistyped
    kept = out / "runs" / "backbone-seed0" / "result.json"
    before = kept.stat().st_mtime_ns
    more = ["--spaces", "backbone,xd", "--seeds", "2"]
    assert search(data, "--out", out, *SMALL, *more) == 2
    assert search(data, "--out", out, *SMALL, *more, "--resume") == 0
    assert "nothing to continue" not in capsys.readouterr().out
    assert kept.stat().st_mtime_ns == before
    assert sorted(p.name for p in (out / "runs").iterdir()) == ["backbone-seed0", "backbone-seed1", "xd-seed0", "xd-seed1"]
    assert "2 seeds" in json.loads((out / "results.json").read_text())["verdict"]
    assert search(data, "--out", out, *SMALL, "--spaces", "xd", "--resume") == 0  # asking for less forgets nothing
    assert [len(row["test"]) for row in json.loads((out / "results.json").read_text())["spaces"]] == [2, 2]


def test_scores_of_a_run_are_made_again_if_they_are_missing_and_refused_if_they_were_changed(tmp_path: Path, capsys) -> None:
    data, out = save(tmp_path, signals()), tmp_path / "out"
    arguments = [data, "--out", out, *SMALL, "--spaces", "backbone,xd"]
    assert search(*arguments) == 0
    scores = out / "runs" / "xd-seed0" / "scores.json"
    before = scores.read_bytes()
    scores.unlink()
    assert search(*arguments, "--resume") == 0
    assert scores.read_bytes() == before
    changed = json.loads(before)
    changed["totals"][0] = 1 - changed["totals"][0]
    scores.write_text(json.dumps(changed))
    capsys.readouterr()
    assert search(*arguments, "--resume") == 2
    assert "scores.json, which does not verify" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("spaces", "flags", "told"),
    [
        ("backbone", "--depth 1 1 1 --domain half", "--depth and --domain: without effect here, for xd alone"),
        ("darts", "--depth 1 1 1 --arch-lr 0.1", "--depth: without effect here, for xd alone"),
        ("backbone", "--warmup 1", "--warmup: without effect here, for darts and xd alone"),
        ("xd", "--backbone-lr 0.1 --depth 1 1 1 --warmup 1", "--backbone-lr: without effect here, for backbone and coordinates"),
        ("coordinates", "--backbone-lr 0.1", None),
    ],
)
def test_flags_that_change_nothing_for_these_spaces_are_named(spaces: str, flags: str, told: str | None) -> None:
    command = fill(Search, ["--spaces", spaces, *flags.split()], "xdops search")
    found = list(command.idle((spaces,)))
    assert len(found) == (told is not None)
    assert told is None or found[0].startswith(told)


def test_ctrl_c_saves_says_how_to_resume_and_resuming_gives_the_uninterrupted_result(tmp_path: Path, capsys, monkeypatch) -> None:
    data, out, whole = save(tmp_path, signals(n=100)), tmp_path / "out", tmp_path / "whole"
    arguments = [data, *SMALL, "--spaces", "xd", "--epochs", "5", "--batch-size", "8"]
    add = Records.add

    def add_and_interrupt(records: Records, *more: Any) -> None:
        add(records, *more)
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C after the first epoch, as the terminal sends it

    with monkeypatch.context() as patch:
        patch.setattr(Records, "add", add_and_interrupt)
        assert search(*arguments, "--out", out) == 130
    printed = capsys.readouterr().out
    assert "everything is saved" in printed
    assert f"--out {out} " in printed
    assert "--resume" in printed
    assert not (out / "results.json").exists()
    assert search(*arguments, "--out", out, "--resume") == 0
    assert search(*arguments, "--out", whole) == 0
    numbers = [json.loads((folder / "results.json").read_text())["runs"][0] for folder in (out, whole)]
    assert numbers[0]["test_at_last"] == numbers[1]["test_at_last"]
    assert numbers[0]["novelty"] == numbers[1]["novelty"]


def test_on_a_terminal_the_progress_of_a_run_in_several_processes_can_be_sent_to_them() -> None:
    console, job = Console(file=io.StringIO(), force_terminal=True), Job("xd, seed 0", Path("run"), 1, print, ())
    experiment = Search().experiment(*find_task("digits", DataSettings()), Path("out"))
    with Search(processes=2).progress(console, experiment, in_turn=True) as progress:
        check_sendable(progress(job))


def test_a_space_that_is_named_twice_is_searched_once() -> None:
    """Two workers would make the same run at once."""
    experiment = Search(spaces="xd, backbone,xd").experiment(*find_task("digits", DataSettings()), Path("out"))
    assert experiment.spaces == ("xd", "backbone")


def test_the_folder_is_held_until_its_report_is_written(tmp_path, monkeypatch) -> None:
    """Another --resume would write one, too, perhaps of more runs, and lose it to this one."""
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", **signals())
    held: list[bool] = []
    monkeypatch.setattr(Search, "report", lambda self, console, experiment, place: held.append(is_held(experiment.out)))
    assert search("data.npz", "--out", "out", "--spaces", "backbone", "--seeds", "1", "--epochs", "1", "-q") == 0
    assert held == [True]
    assert not is_held(Path("out"))


def test_help_teaches_with_examples(capsys) -> None:
    assert main(["search", "--help"]) == 0
    printed = capsys.readouterr().out
    for words in ("xdops search data.npz", "--spaces", "--resume", "x_train, y_train", "(N, channels, length)"):
        assert words in printed


def test_a_torus_is_asked_for_by_name_and_for_grids_alone(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("grids.npz", **KINDS["dense_1d"]())
    np.savez("classes.npz", **signals())
    assert main(["search", "grids.npz", "--periodic", "--spaces", "backbone", "--seeds", "1", "--epochs", "1", "-q"]) == 0
    settings = json.loads(Path("runs/grids/settings.json").read_text())
    assert settings["identity"]["network"]["backbone"] == "periodic"
    assert settings["command"].endswith("--periodic")  # a flag without a value, which the command line takes again
    assert main(["search", "classes.npz", "--periodic"]) == 2
    assert "--periodic with classification targets" in " ".join(capsys.readouterr().err.split())
    assert not Path("runs/classes").exists()
