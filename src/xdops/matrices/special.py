"""K-matrices with a name: Fourier, identity, zero, diagonal, permutation, random. Each is exact.

Directions alternate and are chosen so that everything fits together: what enters an operation's domain ends with a
decreasing butterfly, what leaves it begins with an increasing one.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.matrices.butterfly import Butterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.radices import MAX_RADIX, check_radices, default_radices, digit_reversal, strides_of
from xdops.matrices.routing import route, route_from_inside

Order = Literal["natural", "reversed"]
Norm = Literal["backward", "ortho", "forward"]


def resolve_radices(n: int, radices: Sequence[int] | None, max_radix: int = MAX_RADIX) -> tuple[int, ...]:
    """The given radices, checked, or the primes of n."""
    return default_radices(n, max_radix) if radices is None else check_radices(n, radices)


@checked
def dft(
    n: int,
    radices: Sequence[int] | None = None,
    order: Order = "natural",
    norm: Norm = "backward",
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """The DFT matrix F, exp(-2 pi i f t / n); `norm` as in torch.fft, its scale spread evenly over the factors.

    order "reversed": depth 1, with row p holding frequency digit_reversal(radices)[p], which an XD-operation does not mind.
    order "natural": depth 3, a routed permutation puts the frequencies in order.
    """
    radices = resolve_radices(n, radices)
    scale = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    factors = []
    for r, s in zip(radices, strides_of(radices), strict=True):
        # Decimation in frequency inside a block of r*s: T[o,i,l] = w_{rs}^{i o} w_r^{i l}.
        i, o = torch.arange(r), torch.arange(s)
        turns = (i[None, :, None] * o[:, None, None] + i[None, :, None] * i[None, None, :] * s) % (r * s)
        block = torch.polar(torch.full(turns.shape, r**-scale, dtype=torch.float64), turns.double() * (-2 * math.pi / (r * s)))
        factors.append(block.expand(n // (r * s), s, r, r))
    matrix = KMatrix([Butterfly.from_factors(factors, increasing=False, dtype=_real(dtype))])
    if order == "reversed":
        return matrix
    position_of = torch.argsort(digit_reversal(radices))
    return permutation(position_of, radices, first="increasing", dtype=dtype) @ matrix


@checked
def inverse_dft(
    n: int,
    radices: Sequence[int] | None = None,
    order: Order = "natural",
    norm: Norm = "backward",
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """F^-1; `norm` as in torch.fft. order "reversed" takes its input as `dft(order="reversed")` leaves it, at depth 1."""
    forward: dict[Norm, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
    return dft(n, radices, order, forward[norm], dtype).adjoint()


@checked
def identity(
    n: int,
    depth: int = 1,
    radices: Sequence[int] | None = None,
    first: Literal["increasing", "decreasing"] = "decreasing",
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """The identity as `depth` butterflies; `first` is the direction of the one applied first."""
    radices = resolve_radices(n, radices)
    if depth < 1:
        raise XDError(f"depth {depth}", "at least 1", "depth=1")
    eyes = [
        torch.eye(r, dtype=torch.float64).expand(n // (r * s), s, r, r) for r, s in zip(radices, strides_of(radices), strict=True)
    ]
    start = first == "increasing"
    return KMatrix([Butterfly.from_factors(eyes, start == (d % 2 == 0), _real(dtype)) for d in range(depth)])


@checked
def zero(n: int, depth: int = 1, radices: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """The zero matrix: the identity with the factor applied last set to zero, so that it has a gradient and can learn."""
    return identity(n, depth, radices, dtype=dtype).scale_rows(torch.zeros(n))


@checked
def diagonal(values: Tensor, radices: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """diag(values), real or complex, at depth 1."""
    if values.dim() != 1 or len(values) == 0:
        raise XDError(f"diagonal values of shape {tuple(values.shape)}", "a non-empty vector", "values.flatten()")
    return identity(len(values), 1, radices, dtype=torch.float64).scale_rows(values).to(_real(dtype))


@checked
def permutation(
    order: Sequence[int] | Tensor,
    radices: Sequence[int] | None = None,
    first: Literal["increasing", "decreasing"] = "decreasing",
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """P with (P x)[t] = x[order[t]], at depth 2, by Benes/Clos routing."""
    if isinstance(order, Tensor) and order.dim() != 1:
        raise XDError(f"order of shape {tuple(order.shape)}", "one number for each place", "torch.randperm(n)")
    perm = [int(p) for p in order]
    if sorted(perm) != list(range(len(perm))) or not perm:
        raise XDError(
            f"order {perm if len(perm) <= 16 else str(perm[:16])[:-1] + ', ...]'}",
            f"every integer from 0 to {max(0, len(perm) - 1)} once",
            "torch.randperm(n)",
        )
    radices = resolve_radices(len(perm), radices)
    one, two = (route if first == "decreasing" else route_from_inside)(perm, radices)
    start = first == "increasing"
    return KMatrix([Butterfly.from_factors(one, start, _real(dtype)), Butterfly.from_factors(two, not start, _real(dtype))])


@checked
def random_unitary(
    n: int,
    depth: int = 1,
    radices: Sequence[int] | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """A product of factors whose blocks are independent Haar-random unitary matrices."""

    def block(*shape: int) -> Tensor:
        q, r = torch.linalg.qr(torch.randn(*shape, dtype=torch.complex128, generator=generator))
        phase = torch.diagonal(r, dim1=-2, dim2=-1)
        return q * (phase / phase.abs())[..., None, :]

    return _random(n, depth, radices, block, dtype)


@checked
def random_gaussian(
    n: int,
    depth: int = 1,
    radices: Sequence[int] | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """Factors with complex normal entries of variance 1/r: the product preserves norms on average."""

    def block(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.complex128, generator=generator) / math.sqrt(shape[-1])

    return _random(n, depth, radices, block, dtype)


def _random(n: int, depth: int, radices: Sequence[int] | None, block, dtype: torch.dtype | None) -> KMatrix:  # type: ignore[no-untyped-def]
    radices = resolve_radices(n, radices)
    return KMatrix(
        [
            Butterfly.from_factors(
                [block(n // (r * s), s, r, r) for r, s in zip(radices, strides_of(radices), strict=True)],
                d % 2 == 1,
                _real(dtype),
            )
            for d in range(depth)
        ]
    )


def _real(dtype: torch.dtype | None) -> torch.dtype:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise XDError(f"dtype {dtype}", "a real floating-point dtype", "torch.float32")
    return dtype
