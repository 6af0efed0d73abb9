"""
What an XD-operation is
=======================

An XD-operation computes y = Re(K diag(C (L w + b)) M x). K, L and M are products of sparse butterfly matrices; which ones decides
*which* operation it is, while the weights w are those of the layer. Here are three well-known layers, each exactly an XD-operation:
a convolution, an average pool, and the layer of a Fourier neural operator.
"""

import matplotlib.pyplot as plt
import torch

from xdops import named

torch.manual_seed(0)
n = 32
operations = {
    "convolution, 5 taps": named.convolution(1, 1, 5, n, padding=2),
    "average pool of 4": named.average_pool(1, 4, n, stride=1),
    "FNO, 8 modes": named.fno(1, 1, 8, n),
}

# %%
# What each does to a signal, as a matrix: the effect on unit vectors, one column per input. The convolution is a band along the
# diagonal, the pool is a band of equal values, and the Fourier layer, which keeps the lowest frequencies alone, reaches everywhere.
# Beside it the real parts of K, L and M. K and M are the same in all three: Fourier matrices, with frequencies in another order.
# The layers differ in how weights become one number per frequency, L w + b, drawn last, from the lowest to the highest: L takes the
# taps of the convolution to its spectrum, is zero for the pool, which has no weights and lives in b, and puts the weights of the
# Fourier layer at the lowest frequencies as they are.

figure, grid = plt.subplots(3, 5, figsize=(11, 6.5), layout="constrained")


def draw(axes: plt.Axes, matrix: torch.Tensor) -> None:
    limit = float(matrix.abs().max()) or 1.0
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[])


with torch.no_grad():
    for row, (name, op) in zip(grid, operations.items(), strict=True):
        draw(row[0], op(torch.eye(n)[:, None])[:, 0].T)
        row[0].set_ylabel(name)
        K, L, M = (op.matrix(which).matrices[0].to_dense() for which in "KLM")
        taps = op.weight.shape[-1]
        for axes, matrix in zip(row[1:], (K, L[:, :taps], M), strict=False):
            draw(axes, matrix.real)
        spectrum = L[:, :taps] @ op.weight[0, 0].to(L.dtype)
        spectrum = spectrum if op.b is None else spectrum + torch.view_as_complex(op.b)
        turns = M[:, 1].angle().div(-2 * torch.pi / op.sizes[0]).round().remainder(op.sizes[0])  # the frequency of each row
        lowest = turns <= op.sizes[0] / 2
        row[4].stem(turns[lowest], spectrum[lowest].abs(), basefmt=" ", markerfmt=".")
        row[4].set_xlabel("frequency")
for axes, title in zip(grid[0], ("what it does", "K", "L", "M", "|L w + b|"), strict=True):
    axes.set_title(title)

# %%
# From any of them training can move on: K, L and M are parameters, and what lies between a convolution and a Fourier layer has
# no name yet. ``xdops ops`` in a terminal checks every named operation against an implementation that knows nothing of
# XD-operations.

for name, op in operations.items():
    print(f"{name}: depth {op.depth}, {sum(p.numel() for _, p in op.architecture()):,} architecture parameters")

plt.show()
