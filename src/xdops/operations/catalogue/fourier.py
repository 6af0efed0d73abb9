"""The layer of a Fourier neural operator, and the XD-operation that is exactly that layer (Appendix A, the remark to claim 6).

The layer keeps the lowest frequencies of a real FFT and multiplies them by complex weights. Read over all frequencies it is
y = Re(F^-1 diag(c w) F x), where c is 1 at frequency 0 of the last dimension and 2 at its others, each of which stands for its
conjugate too. So M = F, K = F^-1 and L = diag(c) are K-matrices of depth 1, and w keeps the layer's own values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from xdops.arguments import checked
from xdops.errors import XDError, first_line
from xdops.matrices import KMatrix, dft, digit_reversal
from xdops.matrices.pairs import to_complex
from xdops.matrices.radices import prime_factors
from xdops.matrices.special import diagonal
from xdops.operations.architecture import ARCHITECTURE
from xdops.operations.axes import Axis
from xdops.operations.catalogue.parts import check_real
from xdops.operations.operation import XDOperation
from xdops.operations.warmstart import (
    Depth,
    Presence,
    constant_b,
    constant_C,
    deepen_input,
    deepen_output,
    learned,
    per_dimension,
    resolve_depth,
)

Block = tuple[slice, ...]


class SpectralConv(nn.Module):
    """c_in -> c_out channels in 1, 2 or 3 dimensions with `modes` kept per dimension.

    The last dimension keeps frequencies 0..modes-1 of the real FFT; every other one its modes lowest of either sign, each
    combination of signs with weights of its own. Weights are real pairs, (corners, c_in, c_out, *modes, 2).
    """

    @checked
    def __init__(
        self,
        c_in: int,
        c_out: int,
        modes: Sequence[int],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.modes = tuple(modes)
        if not 1 <= len(self.modes) <= 3 or not all(1 <= n < 2**31 for n in (c_in, c_out, *self.modes)):
            raise XDError(
                f"{c_in} -> {c_out} channels with modes {self.modes}",
                "positive numbers, modes in 1 to 3 dimensions",
                "modes=(8, 8)",
            )
        check_real(dtype)
        check_device_here(device)
        self.in_channels, self.out_channels = c_in, c_out
        shape = (2 ** (len(self.modes) - 1), c_in, c_out, *self.modes, 2)
        self.weight = nn.Parameter(torch.rand(shape, device=device, dtype=dtype) / (c_in * c_out))

    def forward(self, x: Tensor) -> Tensor:
        return spectral_convolution(x, to_complex(self.weight).unbind(), self.modes)

    def extra_repr(self) -> str:
        return f"{self.in_channels} -> {self.out_channels}, modes={self.modes}"


def check_device_here(device: torch.device | str | None) -> None:
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise XDError(f"device={str(device)!r} ({first_line(error)})", "a device of this machine", "device='cpu'") from error


def spectral_convolution(x: Tensor, weights: Sequence[Tensor], modes: Sequence[int]) -> Tensor:
    """The layer as a function; weights: one complex (c_in, c_out, *modes) per corner; half precisions in single precision."""
    sizes = tuple(x.shape[2:])
    check_grid(modes, sizes)
    dims = tuple(range(2, x.dim()))
    spectrum = torch.fft.rfftn(x.to(torch.promote_types(x.dtype, torch.float32)), dim=dims)
    out = spectrum.new_zeros(x.shape[0], weights[0].shape[1], *spectrum.shape[2:])
    for corner, w in zip(corners(modes), weights, strict=True):
        block = (slice(None), slice(None), *corner)
        out[block] = torch.einsum("bi...,io...->bo...", spectrum[block], w)
    return torch.fft.irfftn(out, s=sizes, dim=dims).to(x.dtype)


def corners(modes: Sequence[int]) -> Iterator[Block]:
    """The blocks of kept frequencies: low positive or low negative in all dimensions but the last."""
    *first, last = modes
    for signs in product((False, True), repeat=len(first)):
        yield (*(slice(-m, None) if negative else slice(0, m) for m, negative in zip(first, signs, strict=True)), slice(0, last))


def most_modes(sizes: Sequence[int]) -> tuple[int, ...]:
    """What a grid can hold: in the last dimension as many as there are frequencies below n/2, in the others half the points."""
    *first, last = sizes
    return (*(n // 2 for n in first), (last + 1) // 2)


def check_grid(modes: Sequence[int], sizes: Sequence[int]) -> None:
    """Refuse a grid of other dimensions, or one on which two modes would be the same frequency."""
    if len(sizes) != len(modes):
        raise XDError(
            f"a grid of {len(sizes)} dimensions", f"{len(modes)}, one per entry of modes {tuple(modes)}", "modes=(12, 12)"
        )
    if any(m > most for m, most in zip(modes, most_modes(sizes), strict=True)):
        raise XDError(f"a grid of {tuple(sizes)} points", f"at least twice the modes {tuple(modes)}", "a finer grid or fewer modes")


def from_spectral_conv(
    layer: SpectralConv,
    input_size: int | Sequence[int],
    depth: Depth = None,
    b: Presence = "absent",
    C: Presence = "absent",
    trained: Sequence[str] = ARCHITECTURE,
) -> XDOperation:
    """The XD-operation equal to `layer` on grids of `input_size`, with complex weights that are a copy of the layer's.

    Its sizes are the grid's own, whatever their primes, since the layer's DFT is; it refuses any other grid. Its domain is always
    full: the layer is circular on n points, its frequencies 0, 1, ..., m-1 turn an even number of times pi, 0 among them, and a
    half domain holds odd numbers alone (`domains`). On 2n points, half of which are zeros, the even points of half a domain are
    these frequencies, but then half the domain is n points again and nothing is gained. As only the m kept modes have weights, the
    layer's cost is in K and M; what a half domain would save there is the conjugate of the last dimension's frequencies.
    """
    sizes = per_dimension(input_size, len(layer.modes), "input_size")
    check_grid(layer.modes, sizes)
    dtype = layer.weight.dtype
    axes = [WholeAxis(n) for n in sizes]
    depths = resolve_depth(depth, False)
    M = [dft(n, radices_of(n), order="reversed", norm="ortho", dtype=torch.float64) for n in sizes]
    op = XDOperation(
        axes,
        nn.Parameter(to_filters(layer.weight.detach(), layer.modes), layer.weight.requires_grad),
        [deepen_output(m.adjoint(), depths[0]).to(dtype) for m in M],
        [deepen_input(count_matrix(n, last=i == len(sizes) - 1), depths[1]).to(dtype) for i, n in enumerate(sizes)],
        [deepen_input(m, depths[2]).to(dtype) for m in M],
        b=constant_b(axes, b, dtype),
        C=constant_C(layer.out_channels, layer.in_channels, C, dtype),
        trained=learned(trained, b, C),
        complex_weight=True,
        weight_columns=weight_columns(layer.modes, sizes),
        source=SpectralSource(layer.modes),  # type: ignore[arg-type]  # called as a convolution's Source is
    )
    return op.to(layer.weight.device)


@dataclass(frozen=True)
class WholeAxis(Axis):
    """Inputs are exactly n long: on any other grid the layer would be another operation."""

    def check(self, m: int, dim: int) -> None:
        if m != self.size:
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}",
                f"{self.size}, the grid whose Fourier layer this operation started as",
                "convert_ the network on an example of that grid",
            )


@dataclass(frozen=True)
class SpectralSource:
    """The layer on the operation's own weights: what it computes while its architecture is untouched."""

    modes: tuple[int, ...]

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = spectral_convolution(x, to_complex(from_filters(weight, self.modes)).unbind(), self.modes)
        return y if bias is None else y + bias.reshape(-1, *(1 for _ in self.modes))


def radices_of(n: int) -> tuple[int, ...]:
    """All primes of n, large ones too."""
    return prime_factors(n) or (1,)


def count_matrix(n: int, last: bool) -> KMatrix:
    """L = diag(c): 1 for frequency 0 and 2 for the others in the last dimension, the identity elsewhere."""
    twice = (digit_reversal(radices_of(n)) != 0) & last
    return diagonal(1.0 + twice.double(), radices_of(n), dtype=torch.float64)


def weight_columns(modes: Sequence[int], sizes: Sequence[int]) -> list[Tensor]:
    """Per dimension, where frequencies 0..m-1 and, but for the last one, -m..-1 stand in the digit-reversed domain."""
    columns = []
    for i, (m, n) in enumerate(zip(modes, sizes, strict=True)):
        place = torch.argsort(digit_reversal(radices_of(n)))
        columns.append(place[:m] if i == len(sizes) - 1 else torch.cat((place[:m], place[n - m :])))
    return columns


def to_filters(weight: Tensor, modes: Sequence[int]) -> Tensor:
    """The layer's (corners, c_in, c_out, *modes, 2) as an operation's (c_out, c_in, 2 m_1, ..., 2 m_(N-1), m_N, 2)."""
    *first, last = modes
    filters = weight.new_empty(*weight.shape[2:0:-1], *(2 * m for m in first), last, 2)
    for corner, w in zip(corners(modes), weight, strict=True):
        filters[(slice(None), slice(None), *corner)] = w.transpose(0, 1)
    return filters


def from_filters(filters: Tensor, modes: Sequence[int]) -> Tensor:
    """The way back."""
    return torch.stack([filters[(slice(None), slice(None), *corner)].transpose(0, 1) for corner in corners(modes)])
