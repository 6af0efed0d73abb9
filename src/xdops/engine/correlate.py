"""Long filters along a signal without padding: by products with Toeplitz matrices, or through the FFT."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.matrices import smooth_size

#: Outputs of a block of a signal that goes through filters by a matrix product: at least so many.
LEAST_BLOCK = 128


def correlate_alone(x: Tensor, filters: Tensor) -> Tensor:
    """Signals (signals, m) through filters (k, H), as (signals, k, m - H + 1): block by block of the outputs, one matrix product.

    A block of `length` outputs sees length + H - 1 inputs, through a Toeplitz matrix per filter, whose row t is the filter moved by
    t: the filter and zeros, one entry more than a row is long, written one after the other.
    """
    m, (k, taps) = x.shape[1], filters.shape
    outputs = m - taps + 1
    length = min(outputs, max(taps, LEAST_BLOCK))
    blocks, seen = -(-outputs // length), length + taps - 1
    rolled = F.pad(filters, (0, seen + 1 - taps))[:, None].expand(k, length, seen + 1)
    toeplitz = rolled.reshape(k, -1)[:, : length * seen].reshape(k * length, seen)
    if blocks == 1:
        return (x @ toeplitz.mT).unflatten(1, (k, length))
    x = F.pad(x, (0, blocks * length + taps - 1 - m)).unfold(1, seen, length)  # (signals, blocks, seen)
    z = (x @ toeplitz.mT).unflatten(2, (k, length)).transpose(1, 2).flatten(2)
    return z[..., :outputs]


def correlate_by_fft(x: Tensor, filters: Tensor, stride: Sequence[int], groups: int = 1) -> Tensor:
    """What torch's convolution computes without padding, through the FFT; half precisions are computed in single precision."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    x, filters, given = x.to(dtype), filters.to(dtype), x.dtype
    dims = tuple(range(2, x.dim()))
    sizes = [smooth_size(m, 7) for m in x.shape[2:]]
    x_hat = torch.fft.rfftn(x, sizes, dims).flatten(2).unflatten(1, (groups, -1))  # (batch, g, c_in/g, points)
    w_hat = torch.fft.rfftn(filters, sizes, dims).flatten(2).unflatten(0, (groups, -1)).conj()  # (g, c_out/g, c_in/g, points)
    y_hat = torch.einsum("bgip,goip->bgop", x_hat, w_hat).flatten(1, 2)
    half = [*sizes[:-1], sizes[-1] // 2 + 1]
    y = torch.fft.irfftn(y_hat.unflatten(-1, half), sizes, dims)
    for dim, (m, taps, step) in enumerate(zip(x.shape[2:], filters.shape[2:], stride, strict=True), start=2):
        y = y[(slice(None),) * dim + (slice(0, m - taps + 1, step),)]
    return y.to(given)
