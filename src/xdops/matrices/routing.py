"""Any permutation as two butterflies: Benes routing for radix 2, Clos routing for any radices.

The outermost factors of a decreasing then an increasing butterfly form a three-stage Clos network: r x r switches at the
input, r subnetworks of size n/r, r x r switches at the output. Choosing a subnetwork for every element so that no switch uses one
twice is an edge colouring of a bipartite r-regular graph with r colours, which always exists (Koenig).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from xdops.matrices.radices import digit_reversal, strides_of


def edge_colours(left: Sequence[int], right: Sequence[int], nodes: int, colours: int) -> list[int]:
    """A colour for every edge (left[e], right[e]) such that no node sees one twice; degrees are at most `colours`."""
    at_left = [[-1] * colours for _ in range(nodes)]
    at_right = [[-1] * colours for _ in range(nodes)]
    colour = [-1] * len(left)
    for edge, (u, v) in enumerate(zip(left, right, strict=True)):
        a, b = at_left[u].index(-1), at_right[v].index(-1)
        if a != b and at_right[v][a] != -1:
            # Colour a is free at u but not at v: swap a and b along the path from v that alternates between them.
            path, side, node, want = [], 1, v, a
            while (e := (at_right if side else at_left)[node][want]) != -1:
                path.append(e)
                node, side, want = (left[e] if side else right[e]), 1 - side, a + b - want
            for e in path:
                at_left[left[e]][colour[e]] = at_right[right[e]][colour[e]] = -1
            for e in path:
                colour[e] = a + b - colour[e]
                at_left[left[e]][colour[e]] = at_right[right[e]][colour[e]] = e
        colour[edge] = a
        at_left[u][a] = at_right[v][a] = edge
    return colour


def route(permutation: Sequence[int], radices: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """0/1 factors of (decreasing, increasing) butterflies with y[t] = x[permutation[t]], decreasing applied first."""
    n = len(permutation)
    strides = strides_of(radices)
    shapes = [(n // (r * s), s, r, r) for r, s in zip(radices, strides, strict=True)]
    down, up = [torch.zeros(s) for s in shapes], [torch.zeros(s) for s in shapes]
    problems = {0: list(permutation)}  # block -> the permutation inside it
    for j in range(len(radices) - 1, 0, -1):
        r, s = radices[j], strides[j]
        inner: dict[int, list[int]] = {}
        index: list[tuple[int, int, int, int, int]] = []
        for block, perm in problems.items():
            subnets = edge_colours([source % s for source in perm], [t % s for t in range(r * s)], s, r)
            for subnet in range(r):
                inner[block * r + subnet] = [0] * s
            for t, (source, subnet) in enumerate(zip(perm, subnets, strict=True)):
                inner[block * r + subnet][t % s] = source % s
                index.append((block, source % s, subnet, source // s, t))
        block_of, offset, subnet_of, digit, target = torch.tensor(index).T
        down[j][block_of, offset, subnet_of, digit] = 1
        up[j][block_of, target % s, target // s, subnet_of] = 1
        problems = inner
    up[0][:] = torch.eye(radices[0])
    for block, perm in problems.items():
        down[0][block, 0, torch.arange(len(perm)), torch.tensor(perm)] = 1
    return down, up


def route_from_inside(permutation: Sequence[int], radices: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """The same as (increasing, decreasing) butterflies, increasing applied first: the mirror image under digit reversal."""
    mirrored = tuple(reversed(radices))
    to_mirror = torch.empty(len(permutation), dtype=torch.long)
    # digit_reversal(mirrored)[p] is the index whose digits, read backwards, are those of p.
    from_mirror = digit_reversal(mirrored)
    to_mirror[from_mirror] = torch.arange(len(permutation))
    perm = torch.tensor(list(permutation))
    down, up = route(to_mirror[perm[from_mirror]].tolist(), mirrored)
    return [mirror(f, radices, j) for j, f in enumerate(reversed(down))], [
        mirror(f, radices, j) for j, f in enumerate(reversed(up))
    ]


def mirror(factor: Tensor, radices: Sequence[int], j: int) -> Tensor:
    """Factor j of these radices from its mirror image: blocks and offsets change places, their digits reversed."""
    lower, upper = tuple(radices[:j]) or (1,), tuple(radices[j + 1 :]) or (1,)
    mirrored_blocks, mirrored_offsets = (
        torch.argsort(digit_reversal(lower[::-1])),
        torch.argsort(digit_reversal(upper[::-1])),
    )
    return factor[mirrored_blocks][:, mirrored_offsets].transpose(0, 1).contiguous()
