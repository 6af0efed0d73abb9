"""One of the exact ways to evaluate an XD-operation: immutable, printable."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """One way to evaluate: its form, how K and M are grouped per dimension, what it costs, and why it was chosen."""

    form: str
    grouping: tuple[tuple[int, ...] | None, ...] = ()
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    why: str = ""
    by_tap: bool = False  # channels mix tap by tap, without filters over the grid
    blocks: int = 1  # of outputs, whose past goes through the domain

    def __str__(self) -> str:
        cost = f"{self.flops / 1e6:.3g} Mflop, {self.bytes / 2**20:.3g} MiB of working memory, about {self.seconds * 1e3:.3g} ms"
        return f"{self.form} ({cost}): {self.why}"
