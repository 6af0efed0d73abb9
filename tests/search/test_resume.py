"""A search continues bit for bit, whatever stopped it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from search_support import SETTINGS, StopAt, assert_same_run, lines, make_network, make_problem, timeless

from xdops.errors import XDError
from xdops.search import Interrupted, OptimizerSettings, SearchResult, Silent, load_weights, search
from xdops.search.checkpoint import newest

SUPPORT = Path(__file__).parents[1] / "support" / "search_support.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SearchResult]:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, search(make_network(), make_problem(), SETTINGS, out, progress=Silent())


# 5 steps per epoch; the warm-up ends after epoch 0.
@pytest.mark.parametrize(
    ("at", "number"),
    [((0, 2), signal.SIGINT), ((0, 5), signal.SIGINT), ((1, 1), signal.SIGTERM), ((2, 4), signal.SIGINT), ((3, 5), signal.SIGINT)],
)
def test_a_stopped_search_resumes_bit_for_bit(whole, tmp_path: Path, at: tuple[int, int], number: int, capsys) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="--resume") as stopped:
        search(make_network(), make_problem(), SETTINGS, tmp_path / "run", progress=StopAt(*at, number))
    # It came between two steps, so the next one is finished, or the epoch if there is none.
    assert (stopped.value.epoch, stopped.value.step) == ((at[0], at[1] + 1) if at[1] < 5 else (at[0] + 1, 0))
    assert stopped.value.exit_code == 130
    assert signal.getsignal(number) is before
    assert "Ctrl-C again" in capsys.readouterr().err
    network = make_network(seed=99)  # whatever it held is replaced
    result = search(network, make_problem(), SETTINGS, tmp_path / "run", resume=True, progress=Silent())
    assert_same_run(whole[0], tmp_path / "run")
    assert timeless(result.to_dict() | {"seconds_per_epoch": 0}) == timeless(whole[1].to_dict() | {"seconds_per_epoch": 0})


@pytest.mark.parametrize("name", ["adamw", "rmsprop"])
def test_every_optimizer_resumes_bit_for_bit(tmp_path: Path, name: str) -> None:
    settings = dataclasses.replace(SETTINGS, weights=OptimizerSettings(name, 1e-2), epochs=2, accumulate=2, precision="64-true")
    search(make_network(), make_problem(), settings, tmp_path / "whole", progress=Silent())
    with pytest.raises(Interrupted):
        search(make_network(), make_problem(), settings, tmp_path / "run", progress=StopAt(1, 1))
    search(make_network(), make_problem(), settings, tmp_path / "run", resume=True, progress=Silent())
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_the_same_seed_gives_the_same_run_and_another_seed_another(whole, tmp_path: Path) -> None:
    torch.manual_seed(1234)  # the caller's random state plays no part
    search(make_network(), make_problem(), SETTINGS, tmp_path / "again", progress=Silent())
    assert_same_run(whole[0], tmp_path / "again")
    search(make_network(), make_problem(), dataclasses.replace(SETTINGS, seed=4), tmp_path / "other", progress=Silent())
    assert lines(tmp_path / "other")[0]["train_loss"] != lines(tmp_path / "again")[0]["train_loss"]


def test_a_search_leaves_the_random_state_of_its_caller(tmp_path: Path) -> None:
    network = make_network()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    search(network, make_problem(), dataclasses.replace(SETTINGS, epochs=1, warmup=0), tmp_path / "run", progress=Silent())
    assert torch.equal(torch.rand(3), expected)


def test_resuming_a_finished_search_gives_its_result_again(whole) -> None:
    out, result = whole
    network = make_network(seed=5)
    again = search(network, make_problem(), SETTINGS, out, resume=True, progress=Silent())
    assert again == result
    assert SearchResult.from_dict(json.loads((out / "result.json").read_text())) == result
    assert [line["epoch"] for line in lines(out)] == [1, 2, 3, 4]
    best = make_network(seed=6)
    load_weights(out, best)
    assert all(torch.equal(p, q) for p, q in zip(network.state_dict().values(), best.state_dict().values(), strict=True))


def test_resume_starts_where_nothing_is(whole, tmp_path: Path) -> None:
    search(make_network(), make_problem(), SETTINGS, tmp_path / "run", resume=True, progress=Silent())
    assert_same_run(whole[0], tmp_path / "run")


def test_a_killed_search_resumes_bit_for_bit(whole, tmp_path: Path) -> None:
    threads = str(torch.get_num_threads())  # as many as the run it is compared with: sums depend on how they are split
    environment = os.environ | {"OMP_NUM_THREADS": threads, "SEARCH_THREADS": threads}
    for kill_at in ("1 3", "3 2"):
        command = [sys.executable, str(SUPPORT), str(tmp_path / "run"), "resume"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment | {"SEARCH_HOLD": kill_at})
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == f"step {kill_at}":
                process.kill()
        assert process.wait() == -signal.SIGKILL
        done = newest(tmp_path / "run" / "checkpoints")
        assert done is not None
        assert done.facts["position"]["epoch"] == int(kill_at.split()[0])  # only the epoch at hand is lost
    search(make_network(), make_problem(), SETTINGS, tmp_path / "run", resume=True, progress=Silent())
    assert_same_run(whole[0], tmp_path / "run")


def test_a_second_ctrl_c_quits_at_once(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SEARCH_HOLD": "0 1", "SEARCH_SIGNALS": "3"}
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT), str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().strip() == "step 0 1"  # it waits there
    process.send_signal(signal.SIGINT)
    while "Ctrl-C again" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert "Interrupted" not in errors.replace("KeyboardInterrupt", "")


@pytest.mark.parametrize(
    ("settings", "describe", "problem", "names"),
    [
        ({"weights": dataclasses.replace(SETTINGS.weights, lr=0.07)}, None, {}, "settings.weights.lr is 0.05 there, 0.07 here"),
        ({"epochs": 5}, None, {}, "settings.epochs is 4 there, 5 here"),
        ({}, {"space": "darts"}, {}, "describe.space is None there, 'darts' here"),
        ({}, None, {"train": make_problem().test}, "data.train.x.shape"),
    ],
)  # fmt: skip
def test_a_run_of_another_configuration_is_refused_by_name(whole, settings, describe, problem, names: str) -> None:
    with pytest.raises(XDError, match="another configuration") as refused:
        search(
            make_network(), make_problem(**problem), dataclasses.replace(SETTINGS, **settings), whole[0],
            resume=True, describe=describe, progress=Silent(),
        )  # fmt: skip
    assert names in str(refused.value)


def test_a_run_of_another_network_is_refused(whole) -> None:
    with pytest.raises(XDError, match=r"network\.parameters"):
        search(make_network(searched=False), make_problem(), SETTINGS, whole[0], resume=True, progress=Silent())


def test_a_folder_that_holds_a_run_is_refused_without_resume_and_left_as_it_was(whole) -> None:
    before = {p: p.stat().st_mtime_ns for p in whole[0].rglob("*")}
    with pytest.raises(XDError, match="already holds a run"):
        search(make_network(), make_problem(), SETTINGS, whole[0], progress=Silent())
    assert {p: p.stat().st_mtime_ns for p in whole[0].rglob("*")} == before
