"""Who works on a URL: a file there, written again and again while they do.

Object stores have no locks, so this is a promise and no more: of two commands that begin within the same second both may believe
that they are alone, and clocks of different machines must agree to a minute or so.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from xdops.errors import XDError
from xdops.storage.files import process_alive, this_host
from xdops.storage.mirror import Mirror
from xdops.storage.store import Store

LEASE = ".lease.json"
#: Seconds between two writings, and after which nobody is taken to be there any more.
BEAT, PATIENCE = 30.0, 180.0


@contextmanager
def leased(mirror: Mirror, now: Callable[[], float] = time.time, beat: float = BEAT) -> Iterator[None]:
    """Hold the URL; refused if another command does, unless it has not been heard of for a while or is known to be dead."""
    name, mine = f"{mirror.at}/{LEASE}" if mirror.at else LEASE, uuid.uuid4().hex
    _check(mirror, mirror.store(), name, mine, now())

    def write(store: Store) -> None:
        facts = {"host": this_host(), "pid": os.getpid(), "time": now(), "token": mine}
        store.write(name, json.dumps(facts).encode())

    write(mirror.store())
    _check(mirror, mirror.store(), name, mine, now())  # somebody may have begun at the same moment
    done = threading.Event()

    def keep() -> None:
        while not done.wait(beat):
            with suppress(XDError):  # it does not answer: whoever pushes next will say so
                write(mirror.store())

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
        with suppress(XDError):
            mirror.store().remove(name)


@dataclass(frozen=True)
class _Lease:
    host: str
    pid: int
    time: float
    token: str


def _check(mirror: Mirror, store: Store, name: str, mine: str, now: float) -> None:
    lease = _read(store, name)
    if lease is None or lease.token == mine or abs(now - lease.time) > PATIENCE:
        return
    if lease.host == this_host() and not process_alive(lease.pid):
        return
    raise XDError(
        f"{mirror}, which process {lease.pid} on {lease.host} is using (heard of {max(0.0, now - lease.time):.0f} s ago)",
        "a URL that no other command writes to",
        f"wait for it; if it is dead, {PATIENCE / 60:.0f} minutes",
    )


def _read(store: Store, name: str) -> _Lease | None:
    """None if there is none, or none of ours."""
    try:
        facts = json.loads(store.read(name) or b"null")
        return _Lease(str(facts["host"]), int(facts["pid"]), float(facts["time"]), str(facts["token"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
