"""The threads that torch itself computes in: its OpenMP team, on Linux.

A team's threads do not sleep between torch's calls: they look out for the next one for some milliseconds, and keep their cores busy
with it. Threads of our own would share the cores with them and gain nothing from a second core. So work goes to the team, through
a function of the OpenMP library that torch is linked with. Elsewhere, and after a fork, which leaves the team behind, there is
none.
"""

import ctypes
import os
from functools import cache
from typing import Any

import torch

#: A compiled function of one pointer, called without Python's lock.
Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_forked = False


def there() -> bool:
    """Whether this process has a team."""
    return not _forked and _library() is not None


def run(body: Any, row: Any, threads: int) -> None:
    """body(row) in every thread of a team of at most so many, this one included, without Python's lock."""
    _library().GOMP_parallel(body, row, threads, 0)


@cache
def _library() -> Any:
    """What torch is linked with, if it has this function, as GNU's and LLVM's libraries have on Linux."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        library.GOMP_parallel.argtypes = (Body, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        library.GOMP_parallel.restype = None
    except (OSError, AttributeError):
        return None
    return library


def _forget() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
