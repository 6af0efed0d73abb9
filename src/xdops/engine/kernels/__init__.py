"""Kernels that torch has not, compiled by numba where it is installed.

K-matrices go factor by factor through columns that stay in the cache. `applying` is the door, in plain tensors and numbers; what
lies behind it is imported, and compiled, when it is first used. That takes some seconds once per machine: the result is kept on
disk.
"""

from functools import cache
from importlib.util import find_spec

import torch


@cache
def installed() -> bool:
    """Whether numba is there."""
    return find_spec("numba") is not None


def can_run(dtype: torch.dtype, device: str) -> bool:
    """Whether there are kernels for tensors of this kind."""
    return device == "cpu" and dtype in (torch.float32, torch.float64) and installed()
