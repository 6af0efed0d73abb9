"""
Your own network in your own loop
=================================

Nothing but four lines is new in a training loop of yours: convert, two groups of parameters, look, merge.
"""

import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import xdops

STEPS = 3 if os.environ.get("XDOPS_TINY") else 150

# %%
# Signals of 32 points that were shuffled, one order for all; the target is the mean of a window of the *original* signal.

torch.manual_seed(0)
signals = torch.randn(512, 1, 32).cumsum(dim=2)
target = nn.functional.avg_pool1d(signals, 5, stride=1, padding=2)
x = signals[..., torch.randperm(32)]


def make() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv1d(8, 1, 5, padding=2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for step in range(STEPS):
        batch = torch.arange(step * 64, step * 64 + 64) % 384
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[batch]), target[batch])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(float(nn.functional.mse_loss(model(x[384:]), target[384:]) / target[384:].var()))
    return losses


plain = make()
before = train(plain, torch.optim.Adam(plain.parameters(), lr=1e-2))

# %%
# The same with XD-operations, of depth 3 so that they can hold a permutation and a convolution. The report says what became what,
# and that nothing has changed so far.

model = make()
report = xdops.convert_(model, x[:2], xdops.XDConfig(depth=3))
print(report)
after = train(model, torch.optim.Adam(xdops.parameter_groups(model, lr=1e-2, arch_lr=1e-2)))
print({name: round(moved, 2) for name, moved in xdops.novelty(model).items()})

# %%
# Error on signals that were held out. Merged, the network is made of plain modules that compute the same.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogy(before, label="convolutions")
axes.semilogy(after, label="XD-operations")
axes.set(xlabel="step", ylabel="held-out error, relative")
axes.legend()

with torch.no_grad():
    said = model.eval()(x[:4])
    xdops.merge_(model)
    print(f"merged: differs by {float((model(x[:4]) - said).abs().max()):.1e}")
plt.show()
