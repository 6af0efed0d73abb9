"""On a real Ray: to the bit what one run after the other gives, whatever is killed."""

import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from mortals import write_mortal
from search_data import signals
from search_support import assert_same_run

from xdops.cli.main import main
from xdops.errors import XDError, is_memory
from xdops.experiments.finished import Finished
from xdops.search import Interrupted
from xdops.storage.cache import VARIABLE
from xdops.storage.mirror import Mirror
from xdops.workers.jobs import Job
from xdops.workers.on_ray import _result

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'xdops[ray]')")

WORDS = shlex.split("search data.npz --spaces backbone,xd --seeds 1 --epochs 4 --depth 1 1 1 --cpus-per-run 1")


@pytest.fixture(scope="module")
def address():
    """The head of a Ray with two workers."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # else the workers wait for whatever else the machine is busy with
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        yield cluster.address
        cluster.shutdown()


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mortal", raising=False)  # another test's
    np.savez("data.npz", **signals())
    return tmp_path


def test_runs_of_which_one_has_its_worker_killed_equal_runs_in_turn(address: str, home: Path) -> None:
    killed = write_mortal(home)
    words = [*WORDS, "--backbone", "mortal:build", "--batch-size", "16"]
    assert main([*words, "--ray", address, "--out", "together"]) == 0
    assert killed.exists()
    assert main([*words, "--out", "alone"]) == 0
    for run in ("backbone-seed0", "xd-seed0"):
        assert_same_run(Path("alone/runs") / run, Path("together/runs") / run)


def test_trials_at_a_url_are_stopped_early_by_ray_tune_and_each_is_that_of_a_sequential_search_in_a_folder(
    address: str, home: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv(VARIABLE, str(home / "cache"))
    (home / "there" / "bucket").mkdir(parents=True)
    url = f"dir://bucket/mine::file://{home}/there"
    words = [*WORDS, "--backbone", "small", "--spaces", "backbone", "--trials", "4"]
    assert main([*words, "--ray", address, "--out", url]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"backbone, trial \d: epoch \d/4 done", printed)  # which ones are seen is a matter of time
    assert "asha" not in printed.lower()  # no words of Ray Tune's own
    assert main([*words, "--out", "alone"]) == 0
    Mirror(url, home / "together").pull()
    together, alone = (Finished.open(Path(out)).tuned()["backbone"] for out in ("together", "alone"))
    assert min(trial.epochs for trial in together.trials) < max(trial.epochs for trial in together.trials) == 4
    for one, other in zip(together.trials, alone.trials, strict=True):
        assert one.values == other.values
        if one.epochs == other.epochs:
            assert one.best is not None
            assert other.best is not None
            assert one.best.validation_loss == other.best.validation_loss
    assert len(list(Path("together/tuning").glob("backbone-[0-3]/metrics.jsonl"))) == 4
    assert not list(Path("together/tuning").glob("*-ray"))


@pytest.mark.parametrize("trials", [[], ["--trials", "2", "--ranges", "lr.toml"]], ids=["runs", "trials"])
def test_ctrl_c_stops_the_tasks_and_the_same_command_goes_on(trials: list[str], address: str, home: Path, capsys) -> None:
    pressed = write_mortal(home, "SIGINT", str(os.getpid()))
    Path("lr.toml").write_text("lr = [0.001, 0.1]")
    words = [*WORDS, "--spaces", "backbone", "--backbone", "mortal:build", "--batch-size", "16", *trials, "--ray", address]
    assert main([*words, "--out", "out"]) == 130
    assert pressed.exists()
    assert "what was saved before is whole" in capsys.readouterr().out
    assert main([*words, "--out", "out", "--resume"]) == 0
    if not trials:
        assert main([*words[:-2], "--out", "alone"]) == 0
        assert_same_run(Path("alone/runs/backbone-seed0"), Path("out/runs/backbone-seed0"))


def test_workers_have_a_ray_of_their_own_beside_one_that_is_there(address: str, home: Path) -> None:
    assert main([*WORDS, "--spaces", "backbone", "--backbone", "small", "--workers", "2", "--out", "out"]) == 0
    assert Finished.open(Path("out")).runs() == [("backbone", 0)]


def test_a_folder_that_one_machine_alone_sees_is_refused(address: str, home: Path, capsys) -> None:
    Path("folder").mkdir()
    folder = os.open("folder", os.O_RDONLY)
    out = f"/proc/self/fd/{folder}/out"  # which means something in this process only
    assert main([*WORDS, "--ray", address, "--out", out]) == 2
    os.close(folder)
    assert "is not seen by" in " ".join(capsys.readouterr().err.split())
    assert list(Path("folder").iterdir()) == []


def test_a_url_that_one_process_alone_sees_is_refused(address: str, home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv(VARIABLE, str(home / "cache"))
    assert main([*WORDS, "--ray", address, "--out", "memory://mine"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"--out memory://mine, which is not seen by [0-9.]+ \(no such file\)", said)
    assert not (home / "cache").exists()


def test_what_no_machine_has_room_for_is_refused(address: str, home: Path, capsys) -> None:
    assert main([*WORDS, "--ray", address, "--gpus-per-run", "7", "--out", "out"]) == 2
    assert "runs of 1 CPU and 7 GPUs; expected what one machine has: 2 CPUs" in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("wrong", "message"), [("127.0.0.1:1", "at 127.0.0.1:1 nobody answers"), ("nowhere", "HOST:PORT"), ("ray://x:1", "HOST:PORT")]
)
def test_a_wrong_address_of_the_head_is_refused_at_once(wrong: str, message: str, home: Path, capsys) -> None:
    assert main([*WORDS, "--ray", wrong, "--out", "out"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def test_a_cluster_that_is_gone_is_refused_at_once(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert main([*WORDS, "--ray", "auto", "--out", "out"]) == 2
    assert re.search(r"--ray auto, and at [\w.]+:1 nobody answers", " ".join(capsys.readouterr().err.split()))
    assert not Path("out").exists()


@pytest.mark.parametrize("named", ["", "local", "rubbish"])
def test_auto_is_refused_on_a_machine_that_has_joined_no_cluster(named: str, home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)  # the Ray of other tests is not seen
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda folder: None)
    assert main([*WORDS, "--ray", "auto", "--out", "out"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--ray auto on a machine that has joined no Ray cluster" in said
    assert f"(RAY_ADDRESS is {named})" in said or not named
    assert not Path("out").exists()


def test_without_ray_the_extra_is_named(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*WORDS, "--ray", "auto", "--out", "out"]) == 2
    assert "pip install 'xdops[ray]'" in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("of_the_task", "told"),
    [
        (XDError("this", "that", "more"), XDError),
        (Interrupted(Path("run"), 1, 2), Interrupted),
        (ray.exceptions.TaskCancelledError(), KeyboardInterrupt),  # after a KeyboardInterrupt that the task raised
        (ZeroDivisionError("ours"), ZeroDivisionError),
    ],
)
def test_an_error_of_a_task_is_told_as_if_it_had_happened_here(of_the_task: Exception, told: type, monkeypatch) -> None:
    def get(task: object) -> None:
        raise ray.exceptions.RayTaskError("work", "its traceback", of_the_task)

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(told) as found:
        _result(None, Job("a job", Path("nowhere"), 1, print, ()))
    assert not is_memory(found.value)  # which looks at all that led to it
