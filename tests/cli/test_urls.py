"""Runs at a URL: to the bit what they are in a folder, whatever is killed, wherever they are resumed."""

import json
import os
import shlex
import signal
import sys
import uuid
from pathlib import Path

import mini_table
import numpy as np
import pytest
import torch
from mini_table import put_among_the_tables, reproduce
from mortals import write_mortal
from search_data import signals
from search_support import assert_same_run, lines

from xdops.cli.main import main
from xdops.storage.cache import VARIABLE
from xdops.storage.lease import leased
from xdops.storage.mirror import Mirror

WORDS = shlex.split("search data.npz --spaces backbone --seeds 1 --epochs 3 --batch-size 16 --depth 1 1 1 --cpus-per-run 1 -q")
SMALL, MORTAL = ["--backbone", "small"], ["--backbone", "mortal:build"]
ROW = ("--rows", "cnn-resolution-8", "--seeds", "0")
RUN = "runs/backbone-seed0"


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "mortal", raising=False)  # another test's
    np.savez("data.npz", **signals())
    return tmp_path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in a folder, of a network that nobody has killed."""
    home = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        np.savez("data.npz", **signals())
        write_mortal(home).touch()
        assert main([*WORDS, *MORTAL, "--out", "out"]) == 0
    sys.modules.pop("mortal")
    return home / "out" / RUN


@pytest.fixture
def memory() -> str:
    """Seen by this process alone."""
    return f"memory://{uuid.uuid4().hex}/mine"


@pytest.fixture
def url(home: Path) -> str:
    """Seen by all processes; a file system of its own as far as anybody can tell."""
    (home / "there" / "bucket").mkdir(parents=True)
    return f"dir://bucket/mine::file://{home}/there"


def fetch(url: str) -> Path:
    """All that is at the URL, in a folder of its own."""
    folder = Path("fetched") / uuid.uuid4().hex
    Mirror(url, folder).pull()
    return folder


def refused(capsys, *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_search_at_a_url_is_that_in_a_folder_and_its_network_predicts(home: Path, memory: str, alone: Path, capsys) -> None:
    write_mortal(home).touch()
    words = [*WORDS, *MORTAL, "--out", memory]
    assert main(words) == 0
    assert f"Report: {memory}/report.html" in capsys.readouterr().out
    there = fetch(memory)
    assert_same_run(alone, there / RUN)
    assert f"--out {memory}" in json.loads((there / "settings.json").read_text())["command"]
    assert memory in (there / "report.html").read_text()
    for run, out in ((str(there), "a.npz"), (memory, "b.npz")):
        assert main(["predict", run, "data.npz", *MORTAL, "-o", out]) == 0
    with np.load("a.npz") as a, np.load("b.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a.files)
    assert f"--out {memory}, which already holds this run" in refused(capsys, *words)
    said = refused(capsys, *words, "--lr", "0.5", "--resume")
    assert f"--out {memory}, which holds another run" in said
    assert "cache" not in said


def test_seeds_are_added_from_another_working_copy_and_finished_runs_stay(home: Path, url: str, monkeypatch) -> None:
    assert main([*WORDS, *SMALL, "--out", url]) == 0
    before = fetch(url)
    monkeypatch.setenv(VARIABLE, str(home / "another machine"))
    assert main([*WORDS, *SMALL, "--out", url, "--resume", "--seeds", "2"]) == 0
    after = fetch(url)
    assert sorted(path.name for path in (after / "runs").iterdir()) == ["backbone-seed0", "backbone-seed1"]
    assert (after / RUN / "result.json").read_bytes() == (before / RUN / "result.json").read_bytes()


def run_in_a_fork(words: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        torch.set_num_threads(1)
        os._exit(main(words))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_search_that_is_killed_goes_on_from_the_url_on_another_machine(home: Path, url: str, alone: Path, monkeypatch) -> None:
    write_mortal(home)  # killed at step 8, in the third of three epochs
    words = [*WORDS, *MORTAL, "--out", url]
    assert run_in_a_fork(words) == -signal.SIGKILL
    assert len(lines(fetch(url) / RUN)) == 2
    monkeypatch.setenv(VARIABLE, str(home / "another machine"))
    assert main([*words, "--resume"]) == 0
    assert_same_run(alone, fetch(url) / RUN)
    assert not list((home / "there").rglob(".*"))  # no lease, no mark, no file under way is left


def test_ctrl_c_in_the_middle_of_an_epoch_is_kept_at_the_url(home: Path, url: str, alone: Path, monkeypatch, capsys) -> None:
    write_mortal(home, "SIGINT", str(os.getpid()))
    words = [*WORDS, *MORTAL, "--out", url]
    assert main(words) == 130
    assert f"--out {url}" in capsys.readouterr().out
    newest = sorted((fetch(url) / RUN / "checkpoints").glob("last-*.json"))[-1]
    assert json.loads(newest.read_text())["facts"]["position"]["step"] > 0
    monkeypatch.setenv(VARIABLE, str(home / "another machine"))
    assert main([*words, "--resume"]) == 0
    assert_same_run(alone, fetch(url) / RUN)


def test_a_worker_that_is_killed_is_started_again_and_brings_its_run_to_the_url(
    home: Path, url: str, alone: Path, monkeypatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as without Ray
    killed = write_mortal(home)
    assert main([*WORDS, *MORTAL, "--workers", "2", "--out", url]) == 0
    assert killed.exists()
    assert_same_run(alone, fetch(url) / RUN)


def test_trials_are_kept_at_the_url(home: Path, memory: str) -> None:
    Path("lr.toml").write_text("lr = [0.001, 0.1]")
    words = [*WORDS, *SMALL, "--trials", "2", "--ranges", "lr.toml", "--epochs", "1", "--out", memory]
    assert main(words) == 0
    there = fetch(memory)
    assert sorted(path.name for path in (there / "tuning").iterdir()) == [
        ".mirror.json",
        "backbone-0",
        "backbone-1",
        "backbone.json",
    ]
    (there / "report.html").unlink()
    Mirror(memory, there).push()
    assert main([*words, "--resume"]) == 0  # nothing is tuned again
    assert (fetch(memory) / "tuning/backbone.json").read_bytes() == (there / "tuning/backbone.json").read_bytes()
    assert (fetch(memory) / "report.html").exists()


def test_a_table_of_the_paper_at_a_url_is_that_in_a_folder(home: Path, memory: str, monkeypatch) -> None:
    put_among_the_tables(monkeypatch)
    assert reproduce("mini", "-q", "--out", memory, *ROW) == 0
    found = mini_table.results()
    assert reproduce("mini", "-q", "--out", "folder", "--results", "others", *ROW) == 0
    other = json.loads(Path("others/mini-laptop.json").read_text())
    assert mini_table.timeless(found) == mini_table.timeless(other)
    names = {path.relative_to(home / "folder").as_posix() for path in Path(home / "folder").rglob("*.json")}
    there = fetch(memory)
    assert {path.relative_to(there).as_posix() for path in there.rglob("*.json") if not path.name.startswith(".")} == names
    Path("results/mini-laptop.json").unlink()
    assert reproduce("mini", "-q", "--out", memory, *ROW) == 0  # nothing is left to run, and all is read
    assert mini_table.timeless(mini_table.results()) == mini_table.timeless(other)


def test_a_file_url_is_a_path(home: Path) -> None:
    assert main([*WORDS, *SMALL, "--epochs", "1", "--out", f"file://{home}/runs/mine"]) == 0
    assert (home / "runs/mine/report.html").exists()
    assert not (home / "cache").exists()


def test_what_cannot_be_a_place_for_runs_is_refused_before_anything_starts(home: Path, memory: str, url: str, capsys) -> None:
    Mirror(memory, home / "elsewhere").store().write("thesis.tex", b"mine")
    before = set(home.rglob("*"))
    for out, words in (
        ("nosuch://bucket/mine", "fsspec does not open"),
        ("dir://mine::file:///proc", "dir://mine::file:///proc, which cannot be written to"),
        (
            "s3:/bucket/mine",
            "--out s3:/bucket/mine, with one slash; expected a URL with two, or a path; try: --out s3://bucket/mine",
        ),
        ("sftp://me:secret@host/mine", "a URL with a password"),
        (memory, "which holds other files; expected nothing there, or settings.json"),
    ):
        assert words in refused(capsys, *WORDS, *SMALL, "--out", out)
    assert "for 2 processes" in refused(capsys, *WORDS, *SMALL, "--out", memory, "--workers", "2")
    assert "for 2 processes" in refused(capsys, *WORDS, *SMALL, "--out", memory, "--processes", "2")
    assert "holds no settings.json" in refused(capsys, "predict", url, "data.npz", "-o", "p.npz")
    assert "holds no settings.json" in refused(capsys, "export", memory, "net.pt2")
    assert set(home.rglob("*")) == before


def test_two_commands_do_not_write_to_one_url(home: Path, memory: str, capsys) -> None:
    with leased(Mirror.of(memory)):
        assert f"{memory}, which process {os.getpid()} on" in refused(capsys, *WORDS, *SMALL, "--out", memory)
    assert not (home / "cache").exists()
