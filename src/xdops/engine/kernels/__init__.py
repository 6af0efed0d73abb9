"""Kernels that torch lacks, compiled by numba where it is installed.

K-matrices go factor by factor through columns that stay in the cache. `applying` is the door, in plain tensors and numbers; what
lies behind it is imported, and compiled, when it is first used. That takes some seconds once per machine: the result is kept on
disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

_left_out = False


def installed() -> bool:
    """Whether numba is there, and not left out."""
    return not _left_out and _found()


@cache
def _found() -> bool:
    return find_spec("numba") is not None


@contextmanager
def left_out() -> Iterator[None]:
    """Within this block everything is as without numba."""
    global _left_out
    before, _left_out = _left_out, True
    try:
        yield
    finally:
        _left_out = before


def can_run(dtype: torch.dtype, device: str) -> bool:
    """Whether there are kernels for tensors of this kind."""
    return device == "cpu" and dtype in (torch.float32, torch.float64) and installed()
