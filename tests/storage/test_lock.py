"""One process at a time in a folder; the next one is told who is there."""

import fcntl
import math
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.storage.files import this_host
from xdops.storage.lock import Held, lock, lock_file

HOLD = """
import sys, pathlib
from xdops.storage.lock import lock
with lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_process_is_told_who_holds_the_folder_where_and_since_when(tmp_path: Path, holder) -> None:
    with pytest.raises(Held) as refused, lock(tmp_path / "run"):
        pass
    assert f"process {holder.pid} on {this_host()}, since 20" in str(refused.value)


def test_a_killed_process_holds_nothing_and_what_it_left_is_no_obstacle(tmp_path: Path, holder) -> None:
    run = tmp_path / "run"
    dead = run / f".settings.json.{this_host()}.{holder.pid}.tmp"
    alive = run / f".settings.json.{this_host()}.{os.getpid()}.tmp"
    other = run / ".settings.json.elsewhere.1.tmp"
    mine = run / ".vimrc.tmp"
    for path in (dead, alive, other, mine):
        path.write_text("half")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock(run):
        assert not dead.exists()
        assert alive.exists()  # of a process that lives
        assert other.exists()  # of a machine that cannot be asked
        assert mine.exists()  # none of ours
    assert sorted(p.name for p in run.iterdir()) == sorted(p.name for p in (alive, other, mine))


def test_a_folder_takes_the_locks_of_dead_processes_below_it_away_and_leaves_those_of_live_ones(tmp_path: Path, holder) -> None:
    """Nobody takes the lock of a run again that was finished when its process was killed."""
    dead = tmp_path / "runs" / "finished"
    dead.mkdir(parents=True)
    for name in (".lock", ".lock.holder", ".lock.txt"):
        (dead / name).write_text("{}")
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "runs" / ".lock").symlink_to(tmp_path / "thesis.txt")
    with lock(tmp_path), pytest.raises(Held), lock(tmp_path / "run"):
        pass
    assert [path.name for path in dead.iterdir()] == [".lock.txt"]  # none of ours
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".lock", ".lock.holder"]
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_who_finds_a_folder_held_for_a_moment_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who takes away what a dead process left may be holding it."""
    monkeypatch.setattr("xdops.storage.lock._MOMENT", 60)
    (tmp_path / ".lock").touch()
    held = os.open(tmp_path / ".lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool:
        entered = pool.submit(lambda: lock(tmp_path).__enter__())
        assert not entered.done()
        os.close(held)
        entered.result()


def test_a_process_may_take_the_same_folder_twice_and_leaves_no_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with lock(folder), lock(folder):
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []
    with lock(folder):
        (folder / "file").write_text("")
    assert [p.name for p in folder.iterdir()] == ["file"]


def test_a_file_is_held_without_a_trace(tmp_path: Path) -> None:
    with lock_file(tmp_path / "data.h5", wait=math.inf):
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_holders_name_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock.holder").symlink_to(tmp_path / "thesis.txt")
    with lock(tmp_path / "run"):
        pass
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_folder_in_the_place_of_the_holders_name_leaves_nothing_locked(tmp_path: Path) -> None:
    (tmp_path / "run" / ".lock.holder").mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(XDError, match=r"\.lock\.holder, which could not be written"), lock(tmp_path / "run"):
            pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock.holder"]
