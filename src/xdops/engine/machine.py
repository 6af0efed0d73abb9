"""The rates that plans are made with, and this machine's, measured once and kept in the user's cache folder.

Plans are made with the default rates, or those that were set: with measured ones plans have been up to three times slower, since
kernels alone, in a loop, look faster than they are inside an operation. `xdops bench` prints both.

Measured rates are kept under the processor, torch's version and number of threads, and whether there are compiled kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from xdops.engine import kernels
from xdops.engine.calibration import calibrate
from xdops.engine.rates import Rates
from xdops.errors import XDError
from xdops.measuring.machine import processor
from xdops.storage.cache import cache_folder
from xdops.storage.documents import digest, make_sense, read_json
from xdops.storage.files import make_folder, write_json
from xdops.storage.lock import Held, lock_file

#: Seconds to wait for another process, many times what measuring takes.
PATIENCE = 60

_set: Rates | None = None


def rates() -> Rates:
    """The rates in force."""
    return Rates() if _set is None else _set


def measured_rates() -> Rates:
    """This machine's, as it is used now."""
    return _of_machine(torch.get_num_threads(), kernels.installed())


def set_rates(new: Rates | None) -> None:
    """Plan with these rates from now on; with the default ones, if they are None."""
    global _set
    _set = new


@contextmanager
def rates_restored() -> Iterator[None]:
    """Rates that are set within hold until the end of the block."""
    before = _set
    try:
        yield
    finally:
        set_rates(before)


@lru_cache(maxsize=16)
def _of_machine(threads: int, with_kernels: bool) -> Rates:
    machine = {"processor": processor(), "torch": torch.__version__, "threads": threads, "kernels": with_kernels}
    path = cache_folder() / f"rates-{digest(machine)[:16]}.json"
    found = _read(path)
    if found is not None:
        return found
    try:
        make_folder(path.parent)
        with lock_file(path, wait=PATIENCE):
            found = _read(path)  # another process may have measured meanwhile
            if found is None:
                found = calibrate()
                write_json(path, {"machine": machine, "rates": vars(found)})
            return found
    except Held:  # by a process that is suspended, perhaps
        return calibrate()
    except XDError:  # nothing can be written there
        return Rates()


def _read(path: Path) -> Rates | None:
    """What was kept; None if nothing was, or nothing that makes sense."""
    try:
        return make_sense(path, read_json(path), from_document) if path.is_file() else None
    except (XDError, OSError):
        return None


def from_document(document: dict[str, Any]) -> Rates:
    """The rates that a file or a checkpoint holds."""
    kept = Rates(**{name: float(value) for name, value in document["rates"].items()})
    if not all(0 < value < float("inf") for value in vars(kept).values()):
        raise ValueError("rates are positive numbers")
    return kept
