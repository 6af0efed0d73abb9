"""Writes what neuraloperator's SpectralConv computes, for tests/operations/test_fourier.py to compare with.

Needs `neuralop` (made with version 2.0.0), which is not a dependency: python tests/support/make_fno_reference.py
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

FILE = Path(__file__).parent / "neuraloperator-spectral-conv.npz"

#: Grids and modes per dimension: even and odd sizes, few modes and as many as the grid holds.
CASES = (
    ((16,), (4,)),
    ((15,), (8,)),
    ((8, 10), (2, 3)),
    ((6, 9), (3, 5)),
    ((7, 10), (2, 3)),
    ((4, 6, 7), (2, 2, 3)),
    ((5, 4, 6), (2, 2, 3)),
)


def neuraloperator(sizes: Sequence[int], modes: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Its weight (c_in, c_out, 2 m_1, ..., 2 m_(N-1), m_N), an input and the output, on random numbers."""
    from neuralop.layers.spectral_convolution import SpectralConv

    *first, last = modes
    layer = SpectralConv(2, 2, (*(2 * m for m in first), 2 * (last - 1)), bias=False)  # it keeps n // 2 + 1 in the last dimension
    x = torch.randn(1, 2, *sizes)
    with torch.no_grad():
        return layer.weight.to_tensor().numpy(), x.numpy(), layer(x).numpy()


def name(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


if __name__ == "__main__":
    torch.manual_seed(0)
    arrays = {}
    for sizes, modes in CASES:
        parts = zip(("weight", "input", "output"), neuraloperator(sizes, modes), strict=True)
        arrays |= {f"{name(sizes)} {part}": values for part, values in parts}
    FILE.parent.mkdir(exist_ok=True)
    np.savez(FILE, **arrays)
