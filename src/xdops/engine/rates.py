"""How fast this machine is, as far as plans depend on it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Rates:
    """Of one machine: large products and compiled kernels (flop/s), copies (byte/s), a call (s).

    Products of blocks of size `half` run at half rate.
    """

    gemm: float = 1.0e11
    memory: float = 1.0e10
    call: float = 8e-6
    half: float = 20.0
    kernel: float = 6.0e10

    def product(self, flops: float, smallest: float) -> float:
        """Seconds for products whose smallest dimension is so large."""
        return flops * (1 + self.half / max(1.0, smallest)) / self.gemm

    def traffic(self, numbers: float) -> float:
        """Seconds for reading or writing so many numbers of four bytes."""
        return 4 * numbers / self.memory


_rates = Rates()


def rates() -> Rates:
    """The rates in force."""
    return _rates


def set_rates(new: Rates) -> None:
    """Plan with these rates from now on."""
    global _rates
    _rates = new


def calibrate(seconds: float = 1.0) -> Rates:
    """Measure this machine's rates, within about so many seconds, and plan with them from now on."""

    def best(run: Callable[[], object]) -> float:
        run()
        fastest, until = float("inf"), time.perf_counter() + seconds / 4
        while True:
            start = time.perf_counter()
            run()
            end = time.perf_counter()
            fastest = min(fastest, end - start)
            if end > until:
                return fastest

    large = torch.randn(512, 512)
    gemm = 2 * 512**3 / best(lambda: large @ large)
    blocks, columns = torch.randn(32, 16, 16), torch.randn(32, 16, 1280)
    out = torch.empty(32, 16, 1280)
    batched = 2 * 32 * 16 * 16 * 1280 / best(lambda: torch.bmm(blocks, columns, out=out))
    big = torch.randn(1 << 23)
    other = torch.empty_like(big)
    memory = 2 * 4 * big.numel() / best(lambda: other.copy_(big))
    tiny = torch.randn(4)
    call = best(lambda: tiny + tiny)
    measured = replace(Rates(), gemm=gemm, memory=memory, call=4 * call, half=min(64.0, max(4.0, 16 * (gemm / batched - 1))))
    set_rates(measured)
    return measured
