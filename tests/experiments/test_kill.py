"""SIGKILL at every write of a run: the same command always goes on, and ends as if nothing had happened."""

import json
import os
import shlex
import signal
from pathlib import Path

import bad_world
import numpy as np
import pytest
import torch
from kills import left_over

from xdops.cli.main import main
from xdops.storage import files

ARGUMENTS = shlex.split("search data.npz --out out --seeds 1 --epochs 2 --backbone small --depth 1 1 1 --spaces xd --resume -q")
#: Steps of writing a file at which the process dies.
STEPS = ("opened", "half", "written", "renamed")


def run_and_die(home: Path, write: int, step: str) -> int:
    """The command in a fork of this process, killed at this step of its write number `write`; its exit code or signal.

    A step that is the name of a file is when that one has come into its place."""
    pid = os.fork()
    if pid == 0:
        torch.set_num_threads(1)
        os.chdir(home)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        count = 0

        def die(at: str) -> None:
            if count == write and at == step:
                os.kill(os.getpid(), signal.SIGKILL)

        real_write, real_replace = files._write, os.replace

        def writing(file, data: bytes) -> None:
            nonlocal count
            count += 1
            die("opened")
            if step == "half" and count == write:
                file.write(data[: len(data) // 2])
                file.flush()
                die("half")
            real_write(file, data)
            die("written")

        def replacing(source, target) -> None:
            real_replace(source, target)
            die("renamed")
            if Path(target).name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        files._write, os.replace = writing, replacing
        os._exit(main(ARGUMENTS))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def outcome(home: Path) -> dict:
    result = json.loads((home / "out/runs/xd-seed0/result.json").read_text())
    return {k: result[k] for k in ("best_epoch", "best_validation", "test_at_best", "test_at_last", "novelty", "best_sha256")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, int]:
    """The outcome of a run that nobody kills, and about how many writes it takes."""
    home = tmp_path_factory.mktemp("whole")
    np.savez(home / "data.npz", **bad_world.GOOD)
    assert run_and_die(home, 0, "never") == 0
    return outcome(home), 16


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 14, 16])
def test_a_search_killed_while_writing_goes_on_with_the_same_command(write: int, whole, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **bad_world.GOOD)
    step = STEPS[write % len(STEPS)]
    ended = run_and_die(tmp_path, write, step)
    assert ended in (-signal.SIGKILL, 0)
    assert run_and_die(tmp_path, 0, "never") == 0
    assert outcome(tmp_path) == whole[0]
    assert left_over(tmp_path) == []


def test_a_run_that_was_killed_when_it_had_just_finished_keeps_no_lock(whole, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **bad_world.GOOD)
    assert run_and_die(tmp_path, 0, "result.json") == -signal.SIGKILL
    assert (tmp_path / "out/runs/xd-seed0/.lock").exists()
    assert run_and_die(tmp_path, 0, "never") == 0  # which has nothing left to do in that folder
    assert outcome(tmp_path) == whole[0]
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_while_the_first_settings_are_written_is_no_obstacle(step: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **bad_world.GOOD)
    assert run_and_die(tmp_path, 1, step) == -signal.SIGKILL
    assert (tmp_path / "out").exists()
    assert run_and_die(tmp_path, 0, "never") == 0
