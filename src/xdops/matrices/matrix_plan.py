"""How to multiply, apart from what the matrix is: a small immutable plan, made once per shape."""

from dataclasses import dataclass
from functools import lru_cache

from xdops.errors import XDError


@dataclass(frozen=True)
class MatrixPlan:
    """One way to multiply by a structured matrix of size n, and its cost for one vector."""

    method: str
    n: int
    flops: int
    why: str

    def __str__(self) -> str:
        return f"{self.method} (n={self.n}, {self.flops} flops a vector): {self.why}"


def _dense(n: int, columns: int, rows: int) -> MatrixPlan:
    return MatrixPlan("dense", n, 8 * columns * rows, "one matrix product with the merged factors")


def _staged(n: int, columns: int, rows: int) -> MatrixPlan:
    return MatrixPlan("staged", n, 16 * n * max(1, n.bit_length() - 1), "factor by factor, the definition")


def _grouped(n: int, columns: int, rows: int) -> MatrixPlan:
    return MatrixPlan("grouped", n, round(16 * n * n**0.5), "factors merged into two groups of blocks of about sqrt(n)")


#: A new way to multiply is one function here and one branch in `StructuredMatrix.apply`.
PLANNERS = {"dense": _dense, "grouped": _grouped, "staged": _staged}

#: Up to this size one matrix product beats several smaller ones on a CPU.
DENSE_UP_TO = 128


@lru_cache(maxsize=4096)
def plan_matrix(n: int, columns: int, rows: int, name: str = "auto") -> MatrixPlan:
    """The plan called `name`, or the better one for this size."""
    if name == "auto":
        name = "dense" if n <= DENSE_UP_TO else "grouped"
    if name not in PLANNERS:
        raise XDError(f"plan {name!r}", f"'auto' or one of {sorted(PLANNERS)}", "plan='auto'")
    return PLANNERS[name](n, columns, rows)
