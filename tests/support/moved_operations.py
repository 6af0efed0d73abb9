"""Operations of every kind that have left their start, for tests of what others do with them."""

import torch
from torch import Tensor, nn

from xdops import XDOperation

#: One of every kind of form: grouped or dense, causal, joined, complex filters are in test_fourier.
KINDS = {
    "1d": lambda: XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=1), 12),
    "2d": lambda: XDOperation.from_conv(nn.Conv2d(2, 4, 3, padding=1, stride=2, groups=2), (8, 6), b="trained", C="trained"),
    "circular": lambda: XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), 12),
    "transposed": lambda: XDOperation.from_conv(nn.ConvTranspose1d(2, 3, 3, stride=2), 6),
    "causal": lambda: XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=2), 12, causal=True),
}


def moved(kind: str = "1d", dtype: torch.dtype = torch.float32) -> tuple[XDOperation, Tensor]:
    """An operation that has left its start, and an input."""
    op = KINDS[kind]().to(dtype)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.1 * torch.randn_like(p))
    return op, torch.randn(3, op.in_channels, *(axis.longest for axis in op.axes), dtype=dtype)


def assert_close(given: list[Tensor], expected: list[Tensor], tolerance: float = 1e-5) -> None:
    for g, e in zip(given, expected, strict=True):
        assert (g - e).abs().max() <= tolerance * (1 + e.abs().max())
