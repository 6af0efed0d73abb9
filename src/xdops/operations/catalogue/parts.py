"""What the named operations are put together from: Fourier matrices in the digit-reversed domain, weights, b, C."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xdops.errors import XDError
from xdops.matrices import KMatrix, Kronecker, LearnableKMatrix, cheapest_size, digit_reversal, permutation, sparse
from xdops.matrices.pairs import to_pairs
from xdops.matrices.radices import default_radices
from xdops.operations.axes import Axis
from xdops.operations.domains import Domain, fourier_in, halved
from xdops.operations.operation import XDOperation
from xdops.operations.warmstart import per_dimension

Sizes = int | Sequence[int]


def frequency_rows(n: int, count: int) -> Tensor:
    """Where frequencies 0 ... count-1 stand in the operation's digit-reversed domain."""
    return torch.argsort(digit_reversal(default_radices(n)))[:count]


def mode_matrix(n: int, modes: int, halves: int) -> KMatrix:
    """The sparse L that takes w to w[:k/2] + i w[k/2:] at frequencies 0 ... k/2 - 1; one half is without the imaginary part."""
    placed = torch.zeros(n, n, dtype=torch.complex128)
    for half in range(halves):
        placed[frequency_rows(n, modes), torch.arange(modes) + half * modes] = torch.tensor(1j**half, dtype=placed.dtype)
    return sparse(placed, dtype=torch.float64)


def outer(vectors: Sequence[Tensor]) -> Tensor:
    """v_1 (x) ... (x) v_N as a grid."""
    grid = vectors[0]
    for vector in vectors[1:]:
        grid = grid[..., None] * vector
    return grid


def spread(m: int, spacing: int, n: int) -> KMatrix:
    """The permutation that brings input j of m to position j * spacing of n."""
    source = torch.full((n,), -1)
    source[torch.arange(m) * spacing] = torch.arange(m)
    source[source < 0] = torch.arange(m, n)
    return permutation(source, dtype=torch.float64)


def none_negative(value: Sizes, dims: int, what: str) -> tuple[int, ...]:
    """One integer per dimension, zero allowed."""
    values = (value,) * dims if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    if len(values) != dims or any(not isinstance(v, int) or v < 0 for v in values):
        raise XDError(f"{what} {value}", f"{dims} integers, none negative", f"{what}=0")
    return values


def spatial_sizes(input_size: Sizes) -> tuple[int, ...]:
    return per_dimension(input_size, spatial_dims(input_size), "input_size")


def spatial_dims(input_size: Sizes) -> int:
    dims = 1 if isinstance(input_size, int) else len(input_size) if isinstance(input_size, Sequence) else 0
    if not 1 <= dims <= 3:
        raise XDError(f"input_size {input_size}", "1, 2 or 3 numbers", "input_size=x.shape[2:]")
    return dims


def cheapest_axes(sizes: Sequence[int], domain: Domain) -> list[Axis]:
    """One axis for each length, of the size whose butterflies cost least."""
    return [Axis(cheapest_size(m, even=half)) for m, half in zip(sizes, halved(domain, len(sizes)), strict=True)]


def check_modes(weights: int, n: int) -> None:
    if weights > n:
        raise XDError(f"{weights} weights for modes", f"at most {n}, the operation's size", "fewer modes")


def check_channels(in_channels: int, out_channels: int) -> None:
    if not all(1 <= channels < 2**31 for channels in (in_channels, out_channels)):
        raise XDError(
            f"{in_channels} to {out_channels} channels", "at least one of each, below 2^31", "in_channels=1, out_channels=1"
        )


def check_real(dtype: torch.dtype | None) -> None:
    """Refuse weights that are no real numbers."""
    if dtype is not None and not dtype.is_floating_point:
        raise XDError(f"dtype={dtype}", "a real floating-point type, as complex parameters are pairs", "dtype=torch.float32")


def initial_weight(in_channels: int, out_channels: int, kernel: Sequence[int], dtype: torch.dtype | None) -> Tensor:
    check_channels(in_channels, out_channels)
    check_real(dtype)
    weight = torch.empty(out_channels, in_channels, *kernel, dtype=dtype)
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))  # as nn.Conv*d does
    return weight


def fourier_pair(axes: Sequence[Axis], dtype: torch.dtype) -> tuple[list[KMatrix], list[KMatrix]]:
    """K = F^-1 and M = F, unitary, in the digit-reversed domain."""
    M = [fourier_in(axis.size) for axis in axes]
    return [m.adjoint().to(dtype) for m in M], in_dtype(M, dtype)


def in_dtype(matrices: Sequence[KMatrix], dtype: torch.dtype) -> list[KMatrix]:
    return [matrix.to(dtype) for matrix in matrices]


def plain_b_and_C(axes: Sequence[Axis], c_out: int, c_in: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """b = 0 and C = 1."""
    return torch.zeros(*(a.size for a in axes), 2, dtype=dtype), to_pairs(torch.ones(c_out, c_in, dtype=dtype))


def parameter_free(
    axes: Sequence[Axis],
    b: Tensor,
    channels: int,
    kernel_size: Sizes,
    dtype: torch.dtype | None,
    row_scales: Sequence[Tensor] | None = None,
    domain: Domain = "full",
) -> XDOperation:
    """L = 0 and C = I: b alone acts.

    L is a convolution's with the rows of its first matrix scaled by 0: from there it can learn, while a Kronecker product of
    several zero matrices has no gradient in any of them.
    """
    weight = initial_weight(channels, channels, per_dimension(kernel_size, len(axes), "kernel_size"), dtype)
    M = [fourier_in(axis.size, half) for axis, half in zip(axes, halved(domain, len(axes)), strict=True)]
    K = [m.adjoint() for m in M]
    if row_scales is not None:
        K = [k.scale_rows(scale) for k, scale in zip(K, row_scales, strict=True)]
    L = [m.conj() for m in M]
    L[0] = L[0].scale_rows(torch.zeros(L[0].shape[0]))
    K, L, M = (in_dtype(matrices, weight.dtype) for matrices in (K, L, M))
    return XDOperation(axes, weight, K, L, M, b=to_pairs(b).to(weight.dtype), C=to_pairs(torch.eye(channels, dtype=weight.dtype)))


def one_per_dimension(op: XDOperation, A: KMatrix | Sequence[KMatrix] | Kronecker) -> Sequence[KMatrix]:
    """A as one matrix for each dimension of the operation, in the dtype of its weights; refused unless the sizes agree."""
    matrices = A.matrices if isinstance(A, Kronecker) else (A,) if isinstance(A, KMatrix) else tuple(A)
    if tuple(a.n for a in matrices) != op.sizes:
        raise XDError(
            f"a fixed matrix of sizes {tuple(a.n for a in matrices)}",
            f"{op.sizes}, the operation's own, one matrix per dimension",
            "pad the matrix with zeros",
        )
    return [a.to(op.weight.dtype) for a in matrices]


def with_matrices(op: XDOperation, name: str, matrices: Sequence[KMatrix]) -> XDOperation:
    new = op.copy()
    setattr(new, name, nn.ModuleList(LearnableKMatrix(m, name in op.trained) for m in matrices))
    return new
