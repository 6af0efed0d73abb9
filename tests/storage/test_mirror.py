"""A working copy and its URL: what is pushed is what is pulled, and nothing is carried twice."""

import json
import os
import re
import sys
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from xdops.errors import XDError
from xdops.storage.mirror import NOTES, Mirror
from xdops.storage.store import Store, open_url


@pytest.fixture(params=["memory", "folders"])
def url(request, tmp_path: Path) -> str:
    """A place in memory, which has no folders, and one that has: all that a file system must do by itself is different there."""
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}/mine"
    (tmp_path / "there" / "bucket").mkdir(parents=True)
    return f"dir://bucket/mine::file://{tmp_path}/there"


@pytest.fixture
def one(url: str, tmp_path: Path) -> Mirror:
    return Mirror(url, tmp_path / "one")


@pytest.fixture
def other(url: str, tmp_path: Path) -> Mirror:
    return Mirror(url, tmp_path / "other")


def write(mirror: Mirror, **files: str) -> None:
    for name, text in files.items():
        path = mirror.folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def content(mirror: Mirror) -> dict[str, str]:
    paths = (path for path in mirror.folder.rglob("*") if path.is_file() and path.name != NOTES)
    return {path.relative_to(mirror.folder).as_posix(): path.read_text() for path in paths}


def test_what_one_pushes_another_pulls(one: Mirror, other: Mirror) -> None:
    write(one, settings="a", runs__xd__run="b", runs__xd__checkpoints__last="c")
    one.push()
    other.pull()
    assert content(other) == content(one) == {"settings": "a", "runs/xd/run": "b", "runs/xd/checkpoints/last": "c"}


def test_what_is_gone_from_the_copy_goes_from_the_url_and_from_other_copies(one: Mirror, other: Mirror) -> None:
    write(one, old="a", folder__old="b", kept="c")
    one.push()
    other.pull()
    (one.folder / "old").unlink()
    (one.folder / "folder/old").unlink()
    write(one, new="d")
    one.push()
    other.pull()
    assert content(other) == {"kept": "c", "new": "d"}
    assert not (other.folder / "folder").exists()


def test_what_was_never_seen_in_a_copy_is_not_removed_by_it(one: Mirror, other: Mirror) -> None:
    write(one, a="1")
    one.push()
    write(other, b="2")
    other.push()
    one.pull()
    assert content(one) == {"a": "1", "b": "2"}


def test_what_was_never_pushed_is_forgotten(one: Mirror) -> None:
    write(one, a="1")
    one.push()
    write(one, a="longer", b="2")
    one.pull()
    assert content(one) == {"a": "1"}


def test_what_has_not_changed_is_carried_neither_way(one: Mirror) -> None:
    write(one, a="1", folder__b="2")
    one.push()
    there, here = one.store().find(""), {path: path.stat() for path in one.folder.rglob("*")}
    write(one, folder__c="3")
    one.push()
    one.pull()
    after = one.store().find("")
    assert {name: after[name] for name in there} == there
    assert {path: path.stat() for path in here if path.is_file() and path.name != NOTES} == {
        path: status for path, status in here.items() if path.is_file() and path.name != NOTES
    }


def test_a_file_of_the_same_size_that_was_replaced_in_the_same_moment_has_changed(one: Mirror, other: Mirror) -> None:
    write(one, a="1")
    one.push()
    before = (one.folder / "a").stat()
    write(one, b="2")
    os.utime(one.folder / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(one.folder / "b", one.folder / "a")
    one.push()
    other.pull()
    assert content(other) == {"a": "2"}


@pytest.mark.parametrize("damage", ["", "[]", "3", '{"a": 1}', '{"a": [1]}', "\x00", "[" * 100_000])
def test_without_its_notes_everything_is_copied_again(damage: str, one: Mirror) -> None:
    write(one, a="1")
    one.push()
    (one.folder / NOTES).write_text(damage)
    (one.folder / "a").write_text("2")
    one.pull()
    assert content(one) == {"a": "1"}


def test_locks_and_notes_stay_where_they_are(one: Mirror, other: Mirror) -> None:
    write(one, a="1", runs__b="2")
    (one.folder / ".lock").touch()
    (one.folder / "runs" / ".lock.holder").touch()
    one.push()
    assert sorted(one.store().find("")) == ["a", "runs/b"]
    (other.folder).mkdir()
    (other.folder / ".lock").touch()
    other.pull()
    assert (other.folder / ".lock").exists()


def test_a_part_is_a_mirror_of_its_own(one: Mirror, other: Mirror) -> None:
    write(one, settings="a", runs__xd__run="b", runs__darts__run="c", **{"runs__xd-1__run": "d"})
    one.push()
    other.below("runs/xd").pull()
    assert content(other) == {"runs/xd/run": "b"}
    write(other, runs__xd__result="e", runs__row="f", runs__darts__mine="g")
    other.below("runs/xd").push()
    other.below("runs").push_files()
    one.pull()
    assert set(content(one)) == {"settings", "runs/xd/run", "runs/darts/run", "runs/xd-1/run", "runs/xd/result", "runs/row"}


def test_a_reader_takes_what_it_wants_and_keeps_the_rest(one: Mirror, other: Mirror) -> None:
    write(one, **{"a.json": "1", "b.bin": "2", "c.json": "3"})
    one.push()
    other.pull(wanted=lambda name: name.endswith(".bin"))
    other.pull(wanted=lambda name: name.endswith(".json"))
    assert content(other) == content(one)


def test_files_arrive_in_the_order_in_which_they_were_written_tensors_before_their_description(tmp_path: Path) -> None:
    mirror = Mirror(f"memory://{uuid.uuid4().hex}", tmp_path)
    names = ["z.safetensors", "a.json", "m.jsonl", "b.safetensors", "b.json"]
    for i, name in enumerate(names):
        (tmp_path / name).write_text(name)
        moment = 10**18 + 10**9 * min(i, 3)  # the last two at the same moment
        os.utime(tmp_path / name, ns=(moment, moment))
    mirror.push()
    there = MemoryFileSystem().find(mirror.url, detail=True).values()
    assert [info["name"].rpartition("/")[2] for info in sorted(there, key=lambda info: info["created"])] == names


@pytest.mark.parametrize("name", ["../../outside", "a/../../outside", "a/./b", "a\\b"])
def test_names_that_would_leave_the_copy_are_refused(name: str, tmp_path: Path) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    MemoryFileSystem.store[f"{Store(url)._root}/{name}"] = MemoryFileSystem().open("/x", "wb")
    with pytest.raises(XDError, match="files that xdops wrote"):
        Mirror(url, tmp_path / "copy").pull()
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://bucket/mine", "given nosuch://bucket/mine, which fsspec does not open.*Protocol not known: nosuch"),
        ("memory::nosuch://x", "which fsspec does not open"),
        ("s3://bucket/mine", "for which a package is missing .*; try: pip install s3fs"),
    ],
)
def test_a_url_that_cannot_be_opened_is_refused(url: str, message: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as where it is not installed
    with pytest.raises(XDError, match=message):
        open_url(url)


def test_without_fsspec_it_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(XDError, match=r"without fsspec.*pip install fsspec"):
        open_url("memory://x")


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(XDError, match="a URL with a password") as refused:
        Mirror.of("sftp://me:secret@host/runs")
    assert "secret" not in str(refused.value)


def test_a_store_that_cannot_be_written_to_says_why(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    with pytest.raises(XDError, match=re.escape("dir://mine::file:///proc, which cannot be written to (")):
        Mirror("dir://mine::file:///proc", tmp_path).push()


def test_a_bucket_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "a").write_text("1")
    mirror = Mirror(f"dir://bucket/mine::file://{tmp_path}/there", tmp_path / "copy")
    (tmp_path / "there").mkdir()
    with pytest.raises(XDError, match="cannot be written to"):
        mirror.push()
    assert list((tmp_path / "there").iterdir()) == []
    assert json.dumps(mirror.store().find("")) == "{}"
