"""Several runs at a time in processes: to the bit what one after the other gives, whatever is killed."""

import multiprocessing
import os
import shlex
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from mortals import write_mortal
from search_data import signals
from search_support import assert_same_run

from xdops.cli.main import main
from xdops.errors import XDError
from xdops.workers import Job
from xdops.workers.board import last_record
from xdops.workers.processes import RETRIES, Processes

WORDS = shlex.split("search data.npz --spaces backbone,xd --seeds 1 --epochs 4 --batch-size 16 --depth 1 1 1")
RUNS = ("backbone-seed0", "xd-seed0")


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mortal", None)  # another test's
    monkeypatch.delitem(sys.modules, "mortal")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as without Ray
    np.savez("data.npz", **signals())
    return tmp_path


def test_runs_in_processes_of_which_one_is_killed_equal_runs_in_turn(home: Path, capsys) -> None:
    killed = write_mortal(home)
    words = [*WORDS, "--backbone", "mortal:build", "--cpus-per-run", "1"]
    assert main([*words, "--workers", "2", "--out", "together"]) == 0
    assert killed.exists()
    printed = capsys.readouterr().out
    assert "epoch 4/4 done" in printed
    assert "of 2 done" in printed
    assert main([*words, "--out", "alone", "-q"]) == 0
    for run in RUNS:
        assert_same_run(Path("alone/runs") / run, Path("together/runs") / run)


def test_a_killed_process_of_a_data_parallel_run_is_one_line_and_the_run_resumes(home: Path, capsys) -> None:
    killed = write_mortal(home)
    words = [*WORDS, "--backbone", "mortal:build", "--spaces", "backbone", "--processes", "2", "--out", "out", "-q"]
    assert main(words) == 2
    assert killed.exists()
    said = capsys.readouterr().err
    assert "given a process of the run that ended before it was done" in said
    assert said.count("\n") == 1
    assert main([*words, "--resume"]) == 0


def call_signal(shared: object, number: int, progress: object) -> None:
    os.kill(os.getpid(), number)


def call_refuse(shared: object, what: str, progress: object) -> None:
    raise XDError(what, "something else", "that")


def call_interrupt(shared: object, progress: object) -> None:
    raise KeyboardInterrupt


def job(call, *arguments: object) -> Job:
    return Job("a job", Path("nowhere"), 1, call, arguments)


def test_an_error_of_a_worker_is_the_error_of_the_whole() -> None:
    with pytest.raises(XDError, match="given a mistake"):
        Processes(2, 1).run(None, [job(call_refuse, "a mistake")])
    with pytest.raises(KeyboardInterrupt):
        Processes(2, 1).run(None, [job(call_interrupt)])


def test_a_job_that_always_dies_is_given_up() -> None:
    with pytest.raises(XDError, match=f"died {RETRIES + 1} times.*memory"):
        Processes(1, 1).run(None, [job(call_signal, signal.SIGKILL)])


def test_zero_workers_and_more_gpus_than_there_are_are_refused(home: Path, capsys) -> None:
    for more, message in (
        (["--workers", "0"], "--workers 0; expected from 1"),
        (["--gpus-per-run", "99"], "--gpus-per-run 99 for 1 at a time"),
        (["--cpus-per-run", "0"], "--cpus-per-run 0"),
        (["--workers", "2", "--ray", "auto"], "--workers 2 with --ray"),
    ):
        assert main([*WORDS, "--out", "out", *more]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert [p.name for p in home.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("line", ["3", "[]", "{}", '{"epoch": "one"}', "[" * 100_000, "\x00", ""])
def test_what_is_shown_of_a_run_survives_damaged_metrics(line: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    assert last_record(tmp_path) is None


def say_when_stopped(shared: object, pipe: str, progress: object) -> None:
    """In a worker: says that it is there, and that it was asked to stop."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    with open(pipe, "w") as told:
        print("ready", file=told, flush=True)
        stopped.wait()
        print("stopped", file=told)


def start_one(pipe: str) -> None:
    Processes(1, 1).run(None, [job(say_when_stopped, pipe)])


def test_workers_stop_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first = multiprocessing.get_context("spawn").Process(target=start_one, args=(str(pipe),))
    first.start()
    with open(pipe) as told:
        assert told.readline() == "ready\n"
        first.kill()
        assert told.read() == "stopped\n"
    first.join()
