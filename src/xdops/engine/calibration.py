"""This machine's rates, measured in about a second: products, memory, calls, and compiled kernels where there are some."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from xdops.engine import kernels
from xdops.engine.kernels.applying import ButterflyShape, Side, multiply, multiply_backward
from xdops.engine.rates import Rates
from xdops.engine.workspace import Workspace

#: What goes through kernels in one trial.
POINTS, COLUMNS = 256, 512

#: So many flops take as long as moving a byte into a kernel's blocks and out of them; butterflies of 16 to 1024 points agree on it
#: within a fifth.
FLOPS_PER_BYTE = 13


def calibrate(seconds: float = 1.0) -> Rates:
    """Measure, within about so many seconds. Draws no random numbers.

    One thread is timed, by the processor's time that it takes, and counts for as many as torch has: where other programs run,
    several threads wait for each other, and what would be measured, and kept, are those programs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _of_threads(threads, seconds / 6)
    finally:
        torch.set_num_threads(threads)


def best(run: Callable[[], object], seconds: float) -> float:
    """The fastest of as many runs as there is time for, after one that does not count."""
    run()
    fastest, until = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.thread_time()
        run()
        fastest = min(fastest, time.thread_time() - start)
        if time.perf_counter() > until:
            return fastest


def _of_threads(threads: int, seconds: float) -> Rates:
    large = torch.ones(512, 512)
    gemm = threads * 2 * 512**3 / best(lambda: large @ large, seconds)
    blocks, columns, out = torch.ones(32, 16, 16), torch.ones(32, 16, 320), torch.empty(32, 16, 320)
    batched = threads * 2 * 32 * 16 * 16 * 320 / best(lambda: torch.bmm(blocks, columns, out=out), seconds)
    big = torch.ones(1 << 22)
    other = torch.empty_like(big)
    memory = threads * 2 * 4 * big.numel() / best(lambda: other.copy_(big), seconds)
    tiny = torch.ones(4)
    call = best(lambda: tiny + tiny, seconds)
    measured = Rates(gemm=gemm, memory=memory, call=4 * call, half=min(64.0, max(4.0, 16 * (gemm / batched - 1))))
    return _with_kernels(measured, threads, seconds) if kernels.can_run(torch.float32, "cpu") else measured


def _with_kernels(measured: Rates, threads: int, seconds: float) -> Rates:
    """A butterfly on real columns, forward and backward, in flops as the planner counts them and bytes in and out."""
    factors = POINTS.bit_length() - 1
    shape, values = (ButterflyShape((2,) * factors, False),), torch.full((4 * POINTS * factors,), 0.5)
    x, y = torch.ones(COLUMNS, POINTS), torch.ones(2, POINTS, COLUMNS)
    rows, domain, space = Side(POINTS, POINTS, parts=1), Side(POINTS, POINTS, turned=False), Workspace()
    grad = torch.empty_like(x)

    def step() -> None:
        multiply(shape, values, x, rows, y, domain, space)
        multiply_backward(shape, values, y, domain, x, rows, grad, space)

    passes, numbers = 4, POINTS * COLUMNS
    work = passes * (8.0 * numbers * 2 * factors + FLOPS_PER_BYTE * 4 * 2 * numbers)
    kernel = threads * work / best(step, 2 * seconds)
    return replace(measured, kernel=kernel, kernel_memory=kernel / FLOPS_PER_BYTE)
