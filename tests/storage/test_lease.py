"""Who works on a URL is alone there, as far as a store without locks can tell."""

import json
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.storage.files import this_host
from xdops.storage.lease import LEASE, PATIENCE, leased
from xdops.storage.mirror import Mirror


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(f"memory://{uuid.uuid4().hex}", tmp_path)


def leave(mirror: Mirror, host: str, pid: int, time: float) -> None:
    """As another command has left it."""
    mirror.store().write(LEASE, json.dumps({"host": host, "pid": pid, "time": time, "token": "theirs"}).encode())


def test_while_it_is_held_nobody_else_gets_it_and_afterwards_everybody(mirror: Mirror) -> None:
    with leased(mirror), pytest.raises(XDError, match=rf"{mirror.url}, which process \d+ on .* is using"), leased(mirror):
        pass
    with leased(mirror):
        pass
    assert mirror.store().find("") == {}


def test_parts_of_a_url_are_held_one_by_one(mirror: Mirror) -> None:
    with leased(mirror.below("burgers")), leased(mirror.below("darcy")):
        assert sorted(mirror.store().find("")) == [f"burgers/{LEASE}", f"darcy/{LEASE}"]


@pytest.mark.parametrize(("age", "free"), [(1.0, False), (PATIENCE - 1, False), (PATIENCE + 1, True), (-PATIENCE - 1, True)])
def test_who_was_not_heard_of_for_long_is_gone(age: float, free: bool, mirror: Mirror) -> None:
    leave(mirror, "elsewhere", 1, time=1000.0)
    if free:
        with leased(mirror, now=lambda: 1000.0 + age):
            pass
    else:
        with pytest.raises(XDError, match="process 1 on elsewhere"), leased(mirror, now=lambda: 1000.0 + age):
            pass


def test_a_dead_process_of_this_machine_is_gone_at_once(mirror: Mirror) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    leave(mirror, this_host(), dead.pid, time=1000.0)
    with leased(mirror, now=lambda: 1001.0):
        pass


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"host": 1}', "\x00", "[" * 100_000])
def test_what_is_no_lease_is_none(text: str, mirror: Mirror) -> None:
    mirror.store().write(LEASE, text.encode())
    with leased(mirror):
        pass


def test_it_is_renewed_while_it_is_held(mirror: Mirror) -> None:
    asked, renewed = [0.0], threading.Event()

    def now() -> float:
        asked[0] += 1
        if asked[0] > 6:
            renewed.set()
        return asked[0]

    with leased(mirror, now, beat=1e-4):
        assert renewed.wait(60)
        assert json.loads(mirror.store().read(LEASE) or b"")["time"] > 3
