"""Sizes and their radices: n = r1 r2 ... rq, digits of an index, digit reversal.

Factor j of a butterfly has radix r_j and stride s_j = r_1 ... r_{j-1}; an index is t = sum_j d_j s_j with 0 <= d_j < r_j.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from xdops.errors import XDError

#: Largest radix used when xdops chooses a size or factors one by itself: 34 = 2*17 and 85 = 5*17 are still smooth.
MAX_RADIX = 17


def prime_factors(n: int) -> tuple[int, ...]:
    """The primes of n in increasing order, with multiplicity."""
    primes, p = [], 2
    while p * p <= n:
        while n % p == 0:
            primes.append(p)
            n //= p
        p += 1
    return (*primes, n) if n > 1 else tuple(primes)


def default_radices(n: int, max_radix: int = MAX_RADIX) -> tuple[int, ...]:
    """The prime factorisation of n (all 2 for a power of two), refused where a prime exceeds `max_radix`."""
    if not 1 <= n < 2**31:
        raise XDError(f"size {n}", "a positive size below 2^31", "pass the length of the signal")
    radices = prime_factors(n) or (1,)
    if radices[-1] > max_radix:
        raise XDError(
            f"size {n}, whose largest prime factor is {radices[-1]}",
            f"a size that factors into radices of at most {max_radix}",
            f"size {smooth_size(n, max_radix)}, or max_radix={radices[-1]}",
        )
    return radices


def check_radices(n: int, radices: Sequence[int]) -> tuple[int, ...]:
    """`radices` as a tuple, refused unless their product is n."""
    if math.prod(radices) != n or any(r < 1 for r in radices) or not radices:
        raise XDError(
            f"radices {tuple(radices)} for size {n}",
            f"positive integers with product {n}",
            f"radices={prime_factors(n) or (1,)}",
        )
    return tuple(radices)


def check_half_radices(radices: Sequence[int]) -> tuple[int, ...]:
    """`radices` as a tuple, refused unless the largest stride has radix 2 and others come before it."""
    if len(radices) < 2 or radices[-1] != 2:
        raise XDError(
            f"radices {tuple(radices)} for half a butterfly",
            "at least two, the last one 2: points n/2 apart meet in pairs",
            "radices=half_radices(n)",
        )
    return tuple(radices)


def half_radices(n: int, max_radix: int = MAX_RADIX) -> tuple[int, ...]:
    """The radices of an even n whose half domain is used: the primes of n/2, then 2."""
    if n < 2 or n % 2:
        raise XDError(f"size {n} for half a domain", "an even size", f"size {n + n % 2 or 2}")
    return (*default_radices(n // 2, max_radix), 2)


def smooth_size(at_least: int, max_radix: int = MAX_RADIX) -> int:
    """The smallest n >= `at_least` with no prime factor above `max_radix`."""
    n = max(1, at_least)
    while n > 1 and prime_factors(n)[-1] > max_radix:
        n += 1
    return n


@lru_cache(maxsize=4096)
def cheapest_size(at_least: int, even: bool = False) -> int:
    """The n >= `at_least` whose butterflies cost least, n times the sum of its primes; 135 = 3*3*3*5, not 130 = 2*5*13."""
    best, least = 0, math.inf
    n = max(2 if even else 1, at_least)
    while n * max(1.0, 3 * math.log(n, 3)) < least:  # no n has primes of a smaller sum than 3 log_3(n)
        primes = prime_factors(n) or (1,)
        if primes[-1] <= MAX_RADIX and not (even and n % 2) and n * sum(primes) < least:
            best, least = n, n * sum(primes)
        n += 1
    return best


def power_of_two(at_least: int) -> int:
    """The smallest power of two >= `at_least`."""
    return 1 << max(0, at_least - 1).bit_length()


def strides_of(radices: Sequence[int]) -> tuple[int, ...]:
    """s_j = r_1 ... r_{j-1}."""
    strides, stride = [], 1
    for r in radices:
        strides.append(stride)
        stride *= r
    return tuple(strides)


def digit_reversal(radices: Sequence[int]) -> Tensor:
    """frequency[p]: which frequency the decreasing-stride DFT butterfly leaves at position p.

    The digit of highest stride is the frequency's lowest digit. For all radices equal it is its own inverse.
    """
    n = math.prod(radices)
    position = torch.arange(n)
    frequency = torch.zeros(n, dtype=torch.long)
    weight = 1
    for r, s in zip(reversed(radices), reversed(strides_of(radices)), strict=True):
        frequency += (position // s % r) * weight
        weight *= r
    return frequency
