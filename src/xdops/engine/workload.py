"""What a plan depends on: the numbers of one evaluation, without its tensors."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Made by name. Lengths are per dimension."""

    sizes: tuple[int, ...]  # n
    domain: tuple[int, ...]  # rows of M and L, columns of K: n, or fewer
    inputs: tuple[int, ...]  # m, columns of M in use
    outputs: tuple[int, ...]  # rows of K in use
    kernel: tuple[int, ...]
    batch: int
    c_in: int
    c_out: int
    groups: int
    depth: tuple[int, int, int]
    radices: tuple[tuple[int, ...] | None, ...]  # None where butterflies differ and cannot be grouped together
    meets_in_the_middle: bool  # M ends, and K begins, with the digit of the lowest stride
    has_b: bool
    has_C: bool
    complex_weight: bool
    causal: bool
    source: bool  # the warm start's own layer may stand in
    train_arch: bool  # K, L or M want gradients
    train: bool  # anything wants gradients
    dtype: torch.dtype
    device: str

    @property
    def points(self) -> int:
        return math.prod(self.domain)
