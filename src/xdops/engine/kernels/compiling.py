"""Compiling with numba, kept on disk."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import jit, njit

#: Nothing but kernels calls the parts of kernels.
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inlined(function: Callable[..., Any]) -> Any:
    """Part of a kernel."""
    return jit(nopython=True, error_model="numpy", **_NO_WRAPPERS)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Runs while other threads do. Compiled once per machine, or once per process where no folder can be written."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # numba found no place for its files
        return njit(nogil=True, error_model="numpy")(function)


def sources() -> str:
    """Changes with any file of this folder; numba looks at the file of a kernel alone, and at what the kernel encloses."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
