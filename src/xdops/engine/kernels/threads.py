"""Parts of a kernel's work in as many threads as torch uses.

Which part is done where follows from their number alone, so that sums come out the same every time.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import torch

_pool: ThreadPoolExecutor | None = None
_workers = 0


def parts(items: int, least: int = 1) -> list[tuple[int, int]]:
    """0..items cut into a range per thread, none smaller than `least`."""
    count = max(1, min(torch.get_num_threads(), items // max(1, least)))
    bounds = [items * i // count for i in range(count + 1)]
    return list(pairwise(bounds))


def run(calls: Sequence[Callable[[], object]]) -> None:
    """All at once, the last one here; they must not hold the interpreter for long."""
    others = [_executor(len(calls) - 1).submit(call) for call in calls[:-1]]
    try:
        calls[-1]()
    finally:
        for other in others:
            other.result()


def run_each(part: Callable[[int], object], count: int) -> None:
    """part(0), ..., part(count - 1), all at once."""
    run([partial(part, i) for i in range(count)])


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
