"""The Fourier layer of a Fourier neural operator: real FFT, the lowest modes times complex weights, and back."""

from collections.abc import Iterator, Sequence
from itertools import product

import torch
from torch import Tensor, nn

from xdops.errors import XDError


class SpectralConv(nn.Module):
    """c_in -> c_out channels in 1, 2 or 3 dimensions with `modes` kept per dimension.

    The last dimension keeps frequencies 0..modes-1 of the real FFT; every other one its modes lowest of either sign, each
    combination of signs with weights of its own. Weights are real pairs, (corners, c_in, c_out, *modes, 2).
    """

    def __init__(self, c_in: int, c_out: int, modes: Sequence[int]) -> None:
        super().__init__()
        self.modes = tuple(modes)
        corners = 2 ** (len(self.modes) - 1)
        self.weight = nn.Parameter(torch.rand(corners, c_in, c_out, *self.modes, 2) / (c_in * c_out))

    def corners(self) -> Iterator[tuple[slice, ...]]:
        """The blocks of kept frequencies: low positive or low negative in all dimensions but the last."""
        *first, last = self.modes
        for signs in product((False, True), repeat=len(first)):
            yield (
                *(slice(-m, None) if negative else slice(0, m) for m, negative in zip(first, signs, strict=True)),
                slice(0, last),
            )

    def forward(self, x: Tensor) -> Tensor:
        sizes = x.shape[2:]
        if any(2 * m > n + 1 for m, n in zip(self.modes, sizes, strict=True)):
            raise XDError(
                f"a grid of {tuple(sizes)} points", f"at least twice the modes {self.modes}", "a finer grid or fewer modes"
            )
        dims = tuple(range(2, x.dim()))
        spectrum = torch.fft.rfftn(x, dim=dims)
        weight = torch.view_as_complex(self.weight)
        out = spectrum.new_zeros(x.shape[0], weight.shape[2], *spectrum.shape[2:])
        for corner, w in zip(self.corners(), weight, strict=True):
            block = (slice(None), slice(None), *corner)
            out[block] = torch.einsum("bi...,io...->bo...", spectrum[block], w)
        return torch.fft.irfftn(out, s=sizes, dim=dims)
