"""Propagation over a fixed graph as part of an XD-operation: Conv_1 after multiplication by a sparse matrix."""

import torch
from torch import Tensor

from xdops.errors import XDError
from xdops.matrices import smooth_size, sparse
from xdops.operations.axes import Axis, TapPositions
from xdops.operations.catalogue.parts import in_dtype, initial_weight, plain_b_and_C
from xdops.operations.operation import XDOperation
from xdops.operations.warmstart import convolution_matrices


def checked_graph(adjacency: Tensor) -> Tensor:
    """The adjacency matrix, dense, in float64."""
    if adjacency.dim() != 2 or adjacency.shape[0] != adjacency.shape[1] or len(adjacency) == 0:
        raise XDError(f"an adjacency matrix of shape {tuple(adjacency.shape)}", "(nodes, nodes)", "one row per node")
    A = (adjacency.to_dense() if adjacency.layout != torch.strided else adjacency).to(torch.float64)
    if not bool((A >= 0).all()):
        raise XDError("an adjacency matrix with negative or undefined entries", "entries that are 0 or more", "A.abs()")
    return A


def propagation(in_channels: int, out_channels: int, G: Tensor, dtype: torch.dtype | None) -> XDOperation:
    """Conv_1 after Lin_G, at a size with room for every nonzero of G, so that it is n-sparse: depth 4."""
    nodes = len(G)
    occupied = (G != 0).sum(dim=0), (G != 0).sum(dim=1)
    n = smooth_size(max(nodes, *(int(count.clamp(min=1).sum()) for count in occupied)))
    padded = torch.zeros(n, n, dtype=G.dtype)
    padded[:nodes, :nodes] = G
    weight = initial_weight(in_channels, out_channels, (1,), dtype)
    axes = [Axis(n)]
    K, L, M = convolution_matrices(axes, [TapPositions(1, 0, 1)], (1, 1, 1), torch.float64)
    M = [M[0] @ sparse(padded, dtype=torch.float64)]
    K, L, M = (in_dtype(matrices, weight.dtype) for matrices in (K, L, M))
    return XDOperation(axes, weight, K, L, M, *plain_b_and_C(axes, out_channels, in_channels, weight.dtype))
