"""Two processes train as one does, up to rounding."""

import dataclasses
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from search_support import SETTINGS, STEADY, SUMMED, assert_close_runs, make_network, make_problem
from torch import nn

from xdops.errors import XDError
from xdops.search import Silent, search
from xdops.search.batches import share
from xdops.search.checkpoint import newest
from xdops.search.children import ChildGone, _answer, _child
from xdops.search.distributed import OwnProcesses, make_fabric

SUPPORT = Path(__file__).parents[1] / "support" / "search_support.py"


def test_shares_cover_a_batch_once_and_differ_by_at_most_one() -> None:
    for size in range(1, 9):
        for world in (1, 2, 3, 5):
            batch = torch.arange(size)
            parts = [share(batch, rank, world) for rank in range(world)]
            counted = [batch[part] for part, count in parts if count]
            assert torch.equal(torch.cat(counted), batch)
            assert max(c for _, c in parts) - min(c for _, c in parts) <= 1
            assert all(len(batch[part]) >= 1 for part, _ in parts)


def test_two_processes_equal_one_up_to_rounding(tmp_path: Path) -> None:
    # 37 examples in steps of 2 x 4: the last has one batch of 4 and one of 1, of which the second process has nothing. The end of
    # the warm-up changes what the gradients are reduced over. An odd number of validation examples is shared unevenly.
    settings = dataclasses.replace(SETTINGS, batch_size=4, accumulate=2, epochs=2, precision="64-true", architecture=STEADY)
    networks = {}
    for processes in (1, 2):
        networks[processes] = make_network(dropout=0.0)
        out = tmp_path / str(processes)
        search(networks[processes], make_problem(), dataclasses.replace(settings, processes=processes), out, progress=Silent())
    assert_close_runs(tmp_path / "1", tmp_path / "2")
    # The network of the caller, of which the processes trained copies, has learned.
    for p, q in zip(networks[1].parameters(), networks[2].parameters(), strict=True):
        torch.testing.assert_close(p.double(), q.double(), rtol=1e-6, atol=1e-7)


def test_two_processes_under_torchrun_stopped_and_resumed_equal_one_with_a_summed_loss(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SEARCH_HOLD": "1 2"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(SUPPORT), str(tmp_path / "two"), "resume", "summed"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "step 1 2":
            process.send_signal(signal.SIGTERM)
    process.communicate()
    stopped = newest(tmp_path / "two" / "checkpoints")
    assert stopped is not None
    assert stopped.facts["position"]["epoch"] == 1
    assert stopped.facts["position"]["step"] == 3  # the one at hand was finished
    resumed = subprocess.run(command, env=environment | {"SEARCH_HOLD": ""}, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "still connected" not in resumed.stdout  # its threads would now and then abort a process that ends
    settings, problem = SUMMED
    search(make_network(dropout=0.0), problem, settings, tmp_path / "one", progress=Silent())
    assert_close_runs(tmp_path / "one", tmp_path / "two")


def test_two_nodes_with_a_rendezvous_and_batch_norm_over_both_equal_one_process(tmp_path: Path) -> None:
    # As on two machines, where the same command is given on each. The second process looks for a checkpoint only once the first has
    # written one, as on a busy machine, and goes the first one's way.
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    place = f"127.0.0.1:{20_000 + os.getpid() % 10_000}"  # below the ports that systems hand out
    command = [*torchrun, "--rdzv-endpoint", place, str(SUPPORT), str(tmp_path / "two"), "summed", "normed"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SEARCH_LATE": "1"}
    nodes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) for _ in range(2)]
    said = [node.communicate()[1].decode() for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(said)
    settings, problem = SUMMED
    search(make_network(dropout=0.0, normed=True), problem, settings, tmp_path / "one", progress=Silent())
    assert_close_runs(tmp_path / "one", tmp_path / "two")


class Team(threading.Thread):
    """Stands for processes that were started: ends when it has sent what it has to say."""

    def __init__(self, words: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.words, (self.reader, self.writer) = words, multiprocessing.Pipe(duplex=False)

    def run(self) -> None:
        with self.writer:
            for word in self.words:
                self.writer.send(word)

    def join(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        super().join(timeout)
        return not self.is_alive()


def test_an_answer_longer_than_a_pipe_holds_is_heard() -> None:
    """That of 700 epochs is: it would be waited for until its process ends, which waits for somebody to hear it."""
    team = Team([b"x" * 10_000_000])
    team.start()
    assert len(_answer(team, team.reader)) == 10_000_000  # type: ignore[arg-type]


def test_processes_that_all_end_well_without_a_word_are_not_waited_for() -> None:
    team = Team([])
    team.start()
    with pytest.raises(ChildGone, match="all of them, with exit code 0 and without a word"):
        _answer(team, team.reader)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ending", "told"), [(SystemExit(0), RuntimeError("SystemExit: 0")), (KeyboardInterrupt(), SystemExit(130))]
)
def test_a_process_that_is_ended_from_within_does_not_end_without_a_word(
    ending: BaseException, told: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*arguments: object) -> None:
        raise ending

    monkeypatch.setattr("xdops.search.children.stop_with_parent", lambda: None)
    monkeypatch.setattr("xdops.search.children.launch", leave)
    monkeypatch.setenv("LOCAL_RANK", "")
    with pytest.raises(type(told), match=str(told)):
        _child(0, 1, None, SETTINGS, leave, pickle.dumps(None), ())  # type: ignore[arg-type]


def test_a_loss_that_cannot_be_sent_to_another_process_is_refused(tmp_path: Path) -> None:
    problem = make_problem(loss=lambda prediction, y: nn.functional.cross_entropy(prediction, y))
    with pytest.raises(XDError, match="cannot be sent"):
        search(make_network(), problem, dataclasses.replace(SETTINGS, processes=2), tmp_path / "run", progress=Silent())
    assert not (tmp_path / "run").exists()


#: What batch systems and earlier launchers leave in an environment.
LEFT_BEHIND = {
    "a batch system": {
        "SLURM_NTASKS": "2",
        "SLURM_JOB_NAME": "train",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "1",
        "SLURM_JOB_ID": "1",
    },
    "another one": {"LSB_JOBID": "1", "LSB_DJOB_RANKFILE": "/nowhere", "JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_SIZE": "4"},
    "a launcher": {"LOCAL_RANK": "7", "NODE_RANK": "7", "WORLD_SIZE": "9", "MASTER_ADDR": "nowhere", "MASTER_PORT": "abc"},
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
@pytest.mark.parametrize("processes", [1, 2])
def test_what_others_left_in_the_environment_is_not_ours(what: str, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LEFT_BEHIND[what].items():
        monkeypatch.setenv(name, value)
    fabric = make_fabric(dataclasses.replace(SETTINGS, processes=processes, accelerator="cpu"))
    assert (fabric.world_size, fabric.global_rank, fabric.local_rank, fabric.node_rank) == (processes, 0, 0, 0)
    started = make_fabric(dataclasses.replace(SETTINGS, processes=2, accelerator="cpu"), OwnProcesses(1, 12345))
    assert (started.world_size, started.global_rank, started.local_rank, started.node_rank) == (2, 1, 1, 0)


@pytest.mark.parametrize(("name", "value"), [("RANK", "abc"), ("WORLD_SIZE", "0"), ("LOCAL_RANK", ""), ("LOCAL_WORLD_SIZE", "-1")])
def test_an_environment_of_torchrun_that_is_none_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(each, "0")
    for each in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(each, "1")
    monkeypatch.setenv(name, value)
    with pytest.raises(XDError, match=f"{name}={value} in the environment"):
        make_fabric(SETTINGS)
