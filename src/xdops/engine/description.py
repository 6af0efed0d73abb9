"""What an operation is, but for its tensors: plain numbers, which an operator of torch can take as one string."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdops.engine.geometry import Line
from xdops.engine.plan import Plan
from xdops.matrices.learnable import ButterflyLayout

#: Of one K-matrix: what `matrices.learnable.assemble` takes, beside the values.
MatrixLayout = tuple[ButterflyLayout, ...]


@dataclass(frozen=True, kw_only=True)
class Description:
    lines: tuple[Line, ...]
    K: tuple[MatrixLayout, ...]
    L: tuple[MatrixLayout, ...]
    M: tuple[MatrixLayout, ...]
    groups: int = 1
    padding_mode: str = "zeros"
    transposed_weight: bool = False  # (c_in, c_out/groups, k...) instead of (c_out, c_in/groups, k...)
    complex_weight: bool = False  # with a trailing dimension of 2
    causal: int | None = None  # output t sees inputs up to t + causal
    plan: str | Plan = "auto"

    def channels(self, weight_shape: Sequence[int]) -> tuple[int, int]:
        """(c_in, c_out) of filters of this shape."""
        first, second = weight_shape[0], weight_shape[1] * self.groups
        return (first, second) if self.transposed_weight else (second, first)

    def encode(self) -> str:
        """As text; only what a compiler can follow is used."""
        plan = self.plan if isinstance(self.plan, str) else (self.plan.form, self.plan.grouping, self.plan.by_tap, self.plan.blocks)
        lines = tuple(line.numbers for line in self.lines)
        rest = (self.groups, self.padding_mode, self.transposed_weight, self.complex_weight, self.causal, plan)
        return repr((lines, self.K, self.L, self.M, rest))

    @staticmethod
    @lru_cache(maxsize=1024)
    def decode(text: str) -> "Description":
        lines, K, L, M, (groups, padding_mode, transposed, is_complex, causal, plan) = ast.literal_eval(text)
        return Description(
            lines=tuple(Line(*numbers) for numbers in lines),
            K=K,
            L=L,
            M=M,
            groups=groups,
            padding_mode=padding_mode,
            transposed_weight=transposed,
            complex_weight=is_complex,
            causal=causal,
            plan=plan if isinstance(plan, str) else Plan(plan[0], plan[1], by_tap=plan[2], blocks=plan[3]),
        )
