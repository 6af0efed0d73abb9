"""
What the layers became
======================

After a search: how far has each layer moved, what does it do now, and is there a name for it?
"""

import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import xdops
from xdops.operations.dense import dense_operations

STEPS = 3 if os.environ.get("XDOPS_TINY") else 200

# %%
# Signals that come in an unknown order; the target is a smoothed signal in the right order. The right operation un-permutes and
# then averages, which lies in the XD space of depth 3.

torch.manual_seed(0)
n = 16
order = torch.randperm(n)
signals = torch.randn(256, 1, n)
target = nn.functional.avg_pool1d(signals, 3, stride=1, padding=1)
x = signals[..., order]

model = nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, bias=False))
xdops.convert_(model, x[:2], xdops.XDConfig(depth=3))
start = model[0].copy()
optimizer = torch.optim.Adam(xdops.parameter_groups(model, lr=1e-2, arch_lr=1e-2))
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
print(f"error left: {loss.item() / float(target.var()):.3f}, novelty {xdops.novelty(model)}")

# %%
# The operator before, after, and what it should be: un-permute, then average.

truth = torch.zeros(n, n)
for t in range(n):
    for s in range(max(0, t - 1), min(n, t + 2)):
        truth[t, int((order == s).nonzero())] = 1 / 3
with torch.no_grad():
    found = model(torch.eye(n)[:, None])[:, 0].T
    before = torch.from_numpy(dense_operations(start, (n,))[0].A.real)
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for axes, matrix, title in zip(panels, (before, found, truth), ("before", "after", "the right operation"), strict=True):
    limit = float(matrix.abs().max())
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set(title=title, xticks=[], yticks=[])

# %%
# The nearest operations that have a name, by relative distance of the linear maps. At the start one of them was at distance 0.

for neighbour in xdops.nearest_named(model[0], 3):
    print(f"{neighbour.name}: {neighbour.distance.operator:.2f}")
drawing = xdops.show(model[0])  # in a notebook this line alone draws the operation
plt.show()
