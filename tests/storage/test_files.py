"""Targets are known to be good before any work; files are whole or not there."""

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.storage.files import DiskFull, check_room, check_target, disk_error, replacing, this_host, write_file


@pytest.mark.parametrize("name", [".", "..", "folder", "file/below", "pipe", "x" * 250, "file/deep/below"])
def test_a_target_that_cannot_be_written_is_refused_and_nothing_is_left(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(XDError):
        check_target(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(XDError, match="a pipe, socket or device"):
        write_file(tmp_path / "pipe", b"mine")
    assert (tmp_path / "pipe").is_fifo()
    assert len([*tmp_path.iterdir()]) == 1


def test_devices_and_read_only_systems_are_refused() -> None:
    for name in ("/dev/full", "/dev/null", "/proc/xdops.json", "/proc/deep/xdops.json"):
        with pytest.raises(XDError):
            check_target(Path(name))


def test_a_target_in_folders_to_be_made_is_good_and_they_are_not_made_yet(tmp_path: Path) -> None:
    check_target(tmp_path / "deep" / "er" / "file", needed=1 << 20)
    assert list(tmp_path.iterdir()) == []


def test_room_that_a_quota_does_not_give_is_noticed_at_once(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    try:
        with pytest.raises(XDError, match="full disk"):
            check_room(tmp_path, 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_of_a_full_disk_nothing_is_said_in_single_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 100, 0))
    with pytest.raises(XDError, match=r"0 bytes free.*expected room for what will be written"):
        check_room(tmp_path, needed=1)
    assert "(" not in str(disk_error(tmp_path, 1, OSError(errno.ENOSPC, "full")).given)
    assert "(12 MB)" in disk_error(tmp_path, 12_000_000, OSError(errno.ENOSPC, "full")).given


def test_what_a_dead_process_left_of_a_file_goes_when_it_is_written_again_and_nothing_else(tmp_path: Path) -> None:
    dead, alive = 2**22 + 1, os.getpid()  # no system gives the first
    for name, pid in (("d.npz", dead), ("room", dead), ("d.npz", alive), ("e.npz", dead)):
        (tmp_path / f".{name}.1.{this_host()}.{pid}.tmp").touch()
    (tmp_path / ".d.npz.mine.tmp").touch()
    check_target(tmp_path / "d.npz")
    write_file(tmp_path / "d.npz", b"new")
    left = {f".d.npz.1.{this_host()}.{alive}.tmp", f".e.npz.1.{this_host()}.{dead}.tmp", ".d.npz.mine.tmp", "d.npz"}
    assert set(os.listdir(tmp_path)) == left


def test_a_disk_that_is_too_small_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(XDError, match="MB for what will be written"):
        check_room(tmp_path / "deep/out", needed=2 * shutil.disk_usage(tmp_path).free)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"old")

    def interrupted() -> None:
        with replacing(tmp_path / "a") as new:
            new.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"old"}


def test_the_advice_about_a_full_disk_is_right_for_whoever_writes(tmp_path: Path) -> None:
    error = disk_error(tmp_path / "a", 3, OSError(28, "No space left on device"))
    assert isinstance(error, DiskFull)
    assert str(error).endswith("intact; try: free some space, then do the same again")


def test_what_is_no_file_is_never_replaced_by_one(tmp_path: Path) -> None:
    """A pipe stands for devices, which root could replace for everybody."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "folder", "link"):
        with pytest.raises(XDError, match="the name of a file to write"):
            write_file(tmp_path / name, b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "pipe"]
