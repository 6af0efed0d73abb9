"""Parts of a kernel's work in as many threads as torch has.

What a part adds up does not depend on who does it, so that sums come out the same every time.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from xdops.engine.kernels import team

_pool: ThreadPoolExecutor | None = None
_workers = 0


def parts(items: int, least: int = 1) -> int:
    """How many parts so many items make: one per thread, none smaller than `least`."""
    return max(1, min(torch.get_num_threads(), items // max(1, least)))


def run_parts(body: Any, row: Any, count: int) -> None:
    """body(row) in as many threads as there are parts, at the most; each takes parts until none is left (`native`)."""
    if count == 1:
        body(row)
    elif team.there():
        team.run(body, row, min(count, torch.get_num_threads()))
    else:
        others = [_executor(count - 1).submit(body, row) for _ in range(count - 1)]
        try:
            body(row)
        finally:
            for other in others:
                other.result()


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _workers
    if _pool is None or _workers < workers:
        _pool, _workers = ThreadPoolExecutor(workers, thread_name_prefix="xdops kernel"), workers
    return _pool


def _forget() -> None:
    global _pool, _workers
    _pool, _workers = None, 0


if hasattr(os, "register_at_fork"):  # a fork has none of its parent's threads
    os.register_at_fork(after_in_child=_forget)
