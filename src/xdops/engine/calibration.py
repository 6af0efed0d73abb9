"""This machine's rates, measured in about a second: products, memory, calls, and compiled kernels where there are some."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from xdops.engine import kernels
from xdops.engine.kernels.applying import ButterflyShape, Side, multiply, multiply_backward
from xdops.engine.rates import Rates
from xdops.engine.workspace import Workspace

#: Numbers that go through kernels in one trial, and the sizes of the butterflies they go through.
NUMBERS, SHORT, LONG = 1 << 19, 16, 1024


def calibrate(seconds: float = 1.0) -> Rates:
    """Measure, within about so many seconds. Draws no random numbers."""
    each = seconds / 6
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
    fastest, until = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        fastest = min(fastest, end - start)
        if end > until:
            return fastest


def _with_kernels(measured: Rates, seconds: float) -> Rates:
    """Butterflies of two sizes move as many numbers with different work: two equations for two rates.

    Kernels are not faster than large products, whatever a disturbed measurement says.
    """
    (work, taken), (more_work, more_taken) = (_training(n, seconds) for n in (SHORT, LONG))
    kernel = 1 / max((more_taken - taken) / (more_work - work), 1 / measured.gemm)
    moving = max(taken - work / kernel, more_taken - more_work / kernel, 0.1 * taken)
    return replace(measured, kernel=kernel, kernel_memory=4 * 4 * 2 * NUMBERS / moving)


def _training(n: int, seconds: float) -> tuple[float, float]:
    """Flops, as the planner counts them, and seconds of a butterfly on real columns, forward and backward."""
    factors = n.bit_length() - 1
    shape, values = (ButterflyShape((2,) * factors, False),), torch.full((4 * n * factors,), 0.5)
    x, y = torch.ones(NUMBERS // n, n), torch.ones(2, n, NUMBERS // n)
    rows, domain, space = Side(n, n, parts=1), Side(n, n, turned=False), Workspace()
    grad = torch.empty_like(x)

    def step() -> None:
        multiply(shape, values, x, rows, y, domain, space)
        multiply_backward(shape, values, y, domain, x, rows, grad, space)

    return 4 * 8.0 * NUMBERS * 2 * factors, best(step, seconds)
