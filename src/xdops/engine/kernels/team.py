"""The threads that torch itself computes in: its OpenMP team, on Linux.

A team's threads do not sleep between torch's calls: they look out for the next one for some milliseconds, and keep their cores busy
with it. Threads of our own would share the cores with them and gain nothing from a second core. So work goes to the team, through
two functions of the OpenMP library that torch is linked with. Elsewhere, and after a fork, which leaves the team behind, there is
none.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_forked = False


def there() -> bool:
    """Whether this process has a team."""
    return not _forked and _library() is not None


def run(work: Callable[[], None], threads: int) -> None:
    """work() in every thread of a team of at most so many, this one included. One that finds nothing left to do just returns."""
    library, failures = _library(), deque[BaseException]()

    def helping(_: Any) -> None:
        try:
            work()
        except BaseException as failure:  # none may leave a function that C has called
            failures.append(failure)

    body = _Body(helping)
    try:
        library.GOMP_parallel_start(body, None, threads)
        work()
    finally:
        if library.omp_in_parallel():  # an interrupt may come before the start
            library.GOMP_parallel_end()
    if failures:
        raise failures[0]


@cache
def _library() -> Any:
    """What torch is linked with, if it has these functions, as GNU's and LLVM's libraries have on Linux."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        library.GOMP_parallel_start.argtypes = (_Body, ctypes.c_void_p, ctypes.c_uint)
        library.GOMP_parallel_start.restype = library.GOMP_parallel_end.restype = None
        library.omp_in_parallel.restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library


def _forget() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
