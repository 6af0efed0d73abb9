"""The domain in which an operation multiplies: all n frequencies, or half of them.

Full: M = F / sqrt(n), K = M^H, L[:, j] = conj(F)[:, q_j] for tap positions q_j: circular convolution of n points.

Half: a real input needs one of each pair of conjugate frequencies. Take odd ones: with zeta = exp(i pi / n), M = F diag(zeta^-t),
K = M^H and L[:, j] = conj(F)[:, q_j] zeta^(q_j) are the same convolution, but that positions wrap with a change of sign, and what
wraps is zero. Row f and row n-1-f are conjugate, none is its own, so that for even n the rows of even f, counted twice, are
enough: y = 2 Re(K diag(L w) M x). In digit-reversed order with radix 2 at the largest stride they are the first n/2 rows. It is
an XD-operation of Definition 3.1 whose L has zeros in its other rows. Only the last dimension is halved: of the pairs of
conjugate points of a grid, those with f and n-1-f in the last dimension, one each remains.

Scale: in both, M and K keep the norm of real signals, Re(M^H M) = 1, the scale spread evenly over the factors, and L has entries
of modulus 1: the factor 2 is sqrt(2) in M and K each, 2^(1/2q) in each of q factors, so that Adam's steps, which are as large for
every number, change a half domain's operation by as much as a full one's, through M and K as through L w + b.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.matrices import HalfButterfly, KMatrix, default_radices, dft, digit_reversal, half_radices

Domain = Literal["half", "full"]

#: Unless told otherwise: `xdops reproduce domains` has found half worse on two of its four problems, by more than a standard
#: deviation.
#: The paper's own settings always say "full".
DEFAULT_DOMAIN: Domain = "full"


def check_domain(domain: str) -> None:
    if domain not in get_args(Domain):
        raise XDError(f"domain={domain!r}", " or ".join(map(repr, get_args(Domain))), "domain='half'")


def halved(domain: Domain, dims: int) -> list[bool]:
    """Per dimension whether its domain is halved: the last one."""
    check_domain(domain)
    return [False] * (dims - 1) + [domain == "half"]


def domain_radices(n: int, half: bool) -> tuple[int, ...]:
    return half_radices(n) if half else default_radices(n)


def half_turns(radices: Sequence[int], half: bool) -> Tensor:
    """Per row of M, the half turns that it makes over the n positions: 2f in the full domain, 2f + 1, f even, in the half one."""
    frequencies = digit_reversal(radices)
    return 2 * frequencies[: len(frequencies) // 2] + 1 if half else 2 * frequencies


def phases(turns: Tensor, n: int) -> Tensor:
    """exp(i pi turns / n), complex."""
    return torch.polar(torch.ones(turns.shape, dtype=torch.float64), (turns % (2 * n)).double() * (math.pi / n))


def fourier_matrix(n: int, half: bool = False, radices: Sequence[int] | None = None) -> KMatrix:
    """The transform into the domain with entries of modulus 1: row f makes half_turns[f] half turns; float64, depth 1."""
    radices = domain_radices(n, half) if radices is None else radices
    matrix = dft(n, radices, order="reversed", dtype=torch.float64)
    return matrix.scale_columns(phases(-torch.arange(n), n)).half_rows() if half else matrix


def fourier_in(n: int, half: bool = False, radices: Sequence[int] | None = None) -> KMatrix:
    """M: the same scaled to keep the norm of real signals, evenly over its factors."""
    if not half:
        return dft(n, domain_radices(n, half) if radices is None else radices, order="reversed", norm="ortho", dtype=torch.float64)
    (butterfly,) = fourier_matrix(n, half, radices).butterflies
    scale = [r**-0.5 * 2 ** (0.5 / len(butterfly.radices)) for r in butterfly.radices]
    factors = [f * s for f, s in zip(butterfly.factors, scale, strict=True)]
    return KMatrix([HalfButterfly.from_factors(factors, butterfly.increasing, torch.float64)])
