"""
A graph convolution as an XD-operation
======================================

A graph convolution multiplies by D^-1/2 (A + I) D^-1/2, a sparse matrix: a product of five butterflies holds it (claim 5 of the
paper). So a network on a known graph is a point of the XD space, too, and a search can start there and doubt the graph.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from xdops import named

# %%
# A ring of 24 nodes with a few long-distance friends.

torch.manual_seed(0)
n = 24
A = torch.zeros(n, n)
edges = [(i, (i + 1) % n) for i in range(n)] + [(0, 9), (3, 17), (6, 20), (11, 22)]
for i, j in edges:
    A[i, j] = A[j, i] = 1.0

op = named.graph_convolution(1, 1, A)
with torch.no_grad():
    op.weight.fill_(1.0)
print(f"depth {op.depth}, size {op.sizes[0]}")

# %%
# What it does is what the dense formula does.

loops = A + torch.eye(n)
scale = loops.sum(dim=1).rsqrt()
expected = scale[:, None] * loops * scale
with torch.no_grad():
    found = op(torch.eye(n)[:, None])[:, 0].T
print(f"largest difference from the dense formula: {float((found - expected).abs().max()):.1e}")

# %%
# A unit of heat at one node, after one, two and four steps.

angle = 2 * np.pi * np.arange(n) / n
heat = torch.zeros(1, 1, n)
heat[0, 0, 0] = 1.0
figure, panels = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
panels[0].imshow(found, cmap="viridis")
panels[0].set(title="the operator", xticks=[], yticks=[])
with torch.no_grad():
    for axes, steps in zip(panels[1:], (1, 2, 4), strict=True):
        state = heat
        for _ in range(steps):
            state = op(state)
        for i, j in edges:
            axes.plot(np.cos(angle[[i, j]]), np.sin(angle[[i, j]]), color="lightgray", lw=1, zorder=0)
        axes.scatter(np.cos(angle), np.sin(angle), c=state[0, 0], cmap="inferno", s=60)
        axes.set(title=f"{steps} step{'s' * (steps > 1)}", xticks=[], yticks=[], aspect="equal")
plt.show()
