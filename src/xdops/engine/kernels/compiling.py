"""Compiling with numba: once per machine, kept on disk, by one process while others wait for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import jit, njit
from numba.core import event

from xdops.errors import XDError
from xdops.storage.cache import cache_folder
from xdops.storage.files import make_folder
from xdops.storage.lock import Held, lock_file

#: Nothing but kernels calls the parts of kernels.
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: Seconds to wait for another process, several times what compiling takes: one that is suspended would hold up all others for ever.
PATIENCE = 120
_patient = True  # once is enough: there are many kernels


def inlined(function: Callable[..., Any]) -> Any:
    """Part of a kernel."""
    return jit(nopython=True, error_model="numpy", forceinline=True, **_NO_WRAPPERS)(function)


def spliced(function: Callable[..., Any]) -> Any:
    """Part of a kernel that becomes part of its source. What calls large parts is better spliced in than compiled by itself: numba
    compiles all that a function calls once more with it."""
    return jit(nopython=True, error_model="numpy", inline="always", **_NO_WRAPPERS)(function)


def called(function: Callable[..., Any]) -> Any:
    """Part of a kernel that it calls, in several places: compiled once, it takes less time to compile."""
    return jit(nopython=True, error_model="numpy", **_NO_WRAPPERS)(function)


def compiling(kept: Callable[[], Any], not_kept: Callable[[], Any]) -> Any:
    """What `kept` compiles, or finds compiled, one process at a time; what `not_kept` does, where no file can be written."""
    with _one_process(), event.install_listener("numba:compile", _teller):
        try:
            return kept()
        except (RuntimeError, OSError):  # numba found no place for its files, or a full disk
            return not_kept()


def kernel(function: Callable[..., Any]) -> "Kernel":
    """Runs while other threads do. Compiled once per machine, or once per process where no folder can be written."""
    try:
        return Kernel(njit(nogil=True, error_model="numpy", cache=True)(function))
    except RuntimeError:  # numba found no place for its files
        return Kernel(njit(nogil=True, error_model="numpy")(function))


class Kernel:
    """A function whose first call for a dtype, that of its first array, compiles it or finds it compiled."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.compiled: set[Any] = set()

    def __call__(self, *args: Any) -> Any:
        dtype = args[0].dtype
        if dtype in self.compiled:
            return self.function(*args)
        with _one_process(), event.install_listener("numba:compile", _teller):
            try:
                result = self.function(*args)
            except OSError:  # a full disk: it is compiled and cannot be kept; a kernel itself opens no file
                result = self.function(*args)
        self.compiled.add(dtype)
        return result


@contextmanager
def _one_process() -> Iterator[None]:
    """Others wait, and find it compiled; without a place for a lock, or after too long, everyone compiles for itself."""
    global _patient
    with ExitStack() as held:
        try:
            make_folder(cache_folder())
            held.enter_context(lock_file(cache_folder() / "kernels", wait=PATIENCE if _patient else 0))
        except Held:
            _patient = False
        except XDError:
            pass
        yield


class _Teller(event.Listener):
    """Says so when something is really compiled, in one line."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        if not self.told:
            print("compiling kernels (once)", file=sys.stderr, flush=True)
        self.told = True

    def on_end(self, event: Any) -> None:
        pass


_teller = _Teller()


def sources() -> str:
    """Changes with any file of this folder; numba looks at the file of a kernel alone, and at what the kernel encloses."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
