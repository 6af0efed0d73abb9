"""Documents that verify, and every other one refused by name."""

import json
import os
from pathlib import Path

import bad_world
import pytest

from xdops.errors import XDError
from xdops.storage.documents import (
    SEAL,
    differences,
    read_json,
    read_sealed,
    understood,
    with_digest,
    without_digest,
    write_sealed,
)


@pytest.mark.parametrize(
    "name", [n for n, data in bad_world.JSON.items() if not data.startswith(b"{") or n in ("cut", "not-utf8", "deep-object")]
)
def test_what_is_no_json_object_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(bad_world.JSON[name])
    with pytest.raises(XDError, match=r"settings\.json, which"):
        read_json(path)


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", ".", "pipe"):
        with pytest.raises(XDError, match="cannot be read"):
            read_json(tmp_path / name)


def test_a_sealed_document_comes_back_and_only_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    content = {"accuracy": 0.1, "nested": {"b": [1, 2], "a": None}}
    write_sealed(path, "result", "run 1", content)
    assert read_sealed(path, "result", "run 1") == content
    assert read_sealed(path, "result") == content
    with pytest.raises(XDError, match=r"result\.json, which belongs to another run"):
        read_sealed(path, "result", "run 2")
    with pytest.raises(XDError, match="which is the result of a run; expected its settings"):
        read_sealed(path, "settings", "run 1")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(accuracy=0.9),
        lambda d: d.pop("accuracy"),
        lambda d: d.update(extra=1),
        lambda d: d["nested"].update(a=0),
        lambda d: d[SEAL].update(run="run 2"),
        lambda d: d[SEAL].update(kind="settings"),
        lambda d: d[SEAL].update(version="0.0"),
        lambda d: d[SEAL].pop("digest"),
    ],
)
def test_every_edit_is_noticed(change, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_sealed(path, "result", "run 1", {"accuracy": 0.1, "nested": {"a": None}})
    bad_world.rewrite(path, change)
    with pytest.raises(XDError, match=r"result\.json, which does not verify: it was changed"):
        read_sealed(path, "result", "run 1")


def test_documents_of_older_and_newer_versions_say_so(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"accuracy": 0.1}))
    with pytest.raises(XDError, match=r"written by xdops 0\.1 before files were sealed.*format 2"):
        read_sealed(path, "result")
    path.write_text(json.dumps({SEAL: {"format": 7, "version": "9.9"}}))
    with pytest.raises(XDError, match=r"written by xdops 9\.9"):
        read_sealed(path, "result")


def test_differences_are_named_by_their_place() -> None:
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == [
        "a.c is 2 there, 3 here",
        "d is None there, 4 here",
    ]
    assert differences(1, 1) == []


@pytest.mark.parametrize("error", [KeyError("lr"), TypeError("no"), ZeroDivisionError(), RecursionError(), AttributeError("x")])
def test_what_makes_no_sense_is_the_fault_of_the_file(error: Exception) -> None:
    with pytest.raises(XDError, match=r"here\.json, which makes no sense"), understood(Path("here.json")):
        raise error


def test_a_document_with_a_digest_is_noticed_when_it_is_changed_or_about_something_else(tmp_path: Path) -> None:
    path, document = tmp_path / "d.json", with_digest({"a": 1.5, "b": (1, None)}, "burgers")
    assert without_digest(path, json.loads(json.dumps(document)), "burgers") == {"a": 1.5, "b": [1, None]}
    assert without_digest(path, {"a": 2}, "burgers") == {"a": 2}  # of a version without digests
    for changed, about in ((document | {"a": 1.6}, "burgers"), (document | {"digest": None}, "burgers"), (document, "darcy")):
        with pytest.raises(XDError, match=r"d\.json, which does not verify"):
            without_digest(path, json.loads(json.dumps(changed)), about)


def test_a_seal_without_a_version_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"seal": {}}')
    with pytest.raises(XDError, match="or not by xdops"):
        read_sealed(tmp_path / "settings.json", "settings")
