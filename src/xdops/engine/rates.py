"""How fast a machine is, as far as plans depend on it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Of one machine: large products (flop/s), copies (byte/s), a call (s), compiled kernels (flop/s, and byte/s in and out).

    Products of blocks of size `half` run at half rate.
    """

    gemm: float = 1.0e11
    memory: float = 1.0e10
    call: float = 8e-6
    half: float = 20.0
    kernel: float = 1.0e11
    kernel_memory: float = 1.0e10

    def product(self, flops: float, smallest: float) -> float:
        """Seconds for products whose smallest dimension is so large."""
        return flops * (1 + self.half / max(1.0, smallest)) / self.gemm

    def traffic(self, numbers: float) -> float:
        """Seconds for reading or writing so many numbers of four bytes."""
        return 4 * numbers / self.memory

    def compiled(self, flops: float, numbers: float = 0.0) -> float:
        """Seconds of a compiled kernel that takes so many numbers in and out."""
        return flops / self.kernel + 4 * numbers / self.kernel_memory

    def __str__(self) -> str:
        return (
            f"products {self.gemm / 1e9:.3g} Gflop/s, half of it at blocks of {self.half:.3g}, memory "
            f"{self.memory / 1e9:.3g} GB/s, kernels {self.kernel / 1e9:.3g} Gflop/s and {self.kernel_memory / 1e9:.3g} GB/s"
            f", {self.call * 1e6:.3g} µs per call"
        )
