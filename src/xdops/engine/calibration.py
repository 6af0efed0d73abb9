"""This machine's rates, measured in about a second: products, memory, calls, and compiled kernels where there are some.

What is measured is the processor time of one thread, so that a busy machine is not mistaken for a slow one; the rates are those of
all threads together.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from xdops.engine import kernels
from xdops.engine.kernels.applying import ButterflyShape, Side, multiply, multiply_backward
from xdops.engine.rates import Rates
from xdops.engine.workspace import Workspace

#: Points of the butterflies that are timed, and numbers that go through them: those that stay in a cache, and more.
POINTS, CACHED, LARGE = 256, 1 << 15, 1 << 19


def calibrate(seconds: float = 1.0) -> Rates:
    """Measure, within about so many seconds. Draws no random numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one = _one_thread(seconds / 6)
    finally:
        torch.set_num_threads(threads)
    together = ("gemm", "memory", "kernel", "kernel_memory")
    return replace(one, **{name: threads * getattr(one, name) for name in together})


def _one_thread(each: float) -> Rates:
    large = torch.ones(512, 512)
    gemm = 2 * 512**3 / best(lambda: large @ large, each)
    blocks, columns, out = torch.ones(32, 16, 16), torch.ones(32, 16, 1280), torch.empty(32, 16, 1280)
    batched = 2 * 32 * 16 * 16 * 1280 / best(lambda: torch.bmm(blocks, columns, out=out), each)
    big = torch.ones(1 << 23)
    other = torch.empty_like(big)
    memory = 2 * 4 * big.numel() / best(lambda: other.copy_(big), each)
    tiny = torch.ones(4)
    call = best(lambda: tiny + tiny, each)
    measured = Rates(gemm=gemm, memory=memory, call=4 * call, half=min(64.0, max(4.0, 16 * (gemm / batched - 1))))
    return _with_kernels(measured, each) if kernels.can_run(torch.float32, "cpu") else measured


def best(run: Callable[[], object], seconds: float) -> float:
    """The fastest of as many runs as there is time for, after one that does not count."""
    run()
    fastest, until = float("inf"), time.thread_time() + seconds
    while True:
        start = time.thread_time()
        run()
        end = time.thread_time()
        fastest = min(fastest, end - start)
        if end > until:
            return fastest


def _with_kernels(measured: Rates, seconds: float) -> Rates:
    """The kernels' own rate in the cache; what more numbers take beyond it is moving them, at most as fast as memory is copied."""
    work, taken = _training(CACHED, seconds)
    kernel = work / taken
    more_work, more_taken = _training(LARGE, seconds)
    moved = 4 * 4 * 2 * LARGE
    return replace(measured, kernel=kernel, kernel_memory=moved / max(more_taken - more_work / kernel, moved / measured.memory))


def _training(numbers: int, seconds: float) -> tuple[float, float]:
    """Flops, as the planner counts them, and seconds of a butterfly on real columns, forward and backward."""
    n, factors = POINTS, POINTS.bit_length() - 1
    shape, values = (ButterflyShape((2,) * factors, False),), torch.full((4 * n * factors,), 0.5)
    x, y = torch.ones(numbers // n, n), torch.ones(2, n, numbers // n)
    rows, domain, space = Side(n, n, parts=1), Side(n, n, turned=False), Workspace()
    grad = torch.empty_like(x)

    def step() -> None:
        multiply(shape, values, x, rows, y, domain, space)
        multiply_backward(shape, values, y, domain, x, rows, grad, space)

    return 4 * 8.0 * numbers * 2 * factors, best(step, seconds)
