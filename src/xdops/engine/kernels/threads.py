"""Parts of a kernel's work in as many threads as torch has.

What a part adds up does not depend on who does it, so that sums come out the same every time.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

from xdops.engine.kernels import team

_pool: ThreadPoolExecutor | None = None
_workers = 0


def parts(items: int, least: int = 1) -> list[tuple[int, int]]:
    """0..items cut into a range per thread, none smaller than `least`."""
    count = max(1, min(torch.get_num_threads(), items // max(1, least)))
    bounds = [items * i // count for i in range(count + 1)]
    return list(pairwise(bounds))


def run_each(part: Callable[[int], object], count: int) -> None:
    """part(0), ..., part(count - 1), all at once; they must not hold the interpreter for long."""
    waiting = deque(range(count))

    def work() -> None:
        while (i := _next(waiting)) is not None:
            part(i)

    if count == 1:
        work()
    elif team.there():
        team.run(work, torch.get_num_threads())
    else:
        _run_in_pool(work, count)


def _next(waiting: deque[int]) -> int | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _run_in_pool(work: Callable[[], None], count: int) -> None:
    others = [_executor(count - 1).submit(work) for _ in range(count - 1)]
    try:
        work()
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
