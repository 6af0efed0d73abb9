"""
Trained on one grid, asked on a finer one
=========================================

``xdops.resize_`` lets a searched network take a finer grid without any training. Its operations are carried over as the operators
between functions that they are: read at the old points, interpolated to the new ones. ``xdops reproduce resolution`` measures it on
Burgers' equation, beside an FNO.
"""

import copy
import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import xdops

TINY = bool(os.environ.get("XDOPS_TINY"))
STEPS = 3 if TINY else 200
COARSE, FINER = 32, (64, 128)


# %%
# The map to be learned takes a function on the circle to itself a quarter turn on, plus its square: on 32 points a convolution of 5
# taps cannot look so far.


def functions(points: int, count: int, seed: int) -> torch.Tensor:
    """The same random functions on any grid."""
    t = torch.arange(points) / points
    generator = torch.Generator().manual_seed(seed)
    size, phase = torch.rand(2, count, 1, 5, 1, generator=generator)
    waves = torch.cos(2 * torch.pi * (torch.arange(1, 6)[:, None] * t + phase))
    return (size * waves / torch.arange(1, 6)[:, None]).sum(dim=2)


def asked(x: torch.Tensor) -> torch.Tensor:
    return x.roll(x.shape[-1] // 4, dims=-1) + x**2


torch.manual_seed(0)
circular = {"padding": 2, "padding_mode": "circular"}
model = nn.Sequential(nn.Conv1d(1, 16, 5, **circular), nn.ReLU(), nn.Conv1d(16, 16, 1), nn.ReLU(), nn.Conv1d(16, 1, 5, **circular))
x = functions(COARSE, 256, seed=0)
xdops.convert_(model, x[:2], filter_fn=lambda name, layer: layer.kernel_size != (1,))
optimizer = torch.optim.Adam(xdops.parameter_groups(model, lr=3e-3, arch_lr=3e-3))
for _ in range(STEPS):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), asked(x)).backward()
    optimizer.step()

# %%
# The error on new functions, on the grid of training and on finer ones.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
errors = {}
for points in (COARSE, *FINER):
    new = functions(points, 64, seed=1)
    resized = copy.deepcopy(model)
    report = xdops.resize_(resized, new[:2])
    with torch.no_grad():
        said = resized(new)
    errors[points] = float((said - asked(new)).norm() / asked(new).norm())
    left.plot(torch.arange(points) / points, said[0, 0], marker="." if points == COARSE else "", lw=1, label=f"{points} points")
left.plot(torch.arange(128) / 128, asked(functions(128, 64, seed=1))[0, 0], color="black", lw=1, ls=":", label="truth")
left.legend()
right.bar(range(len(errors)), errors.values())
right.set_xticks(range(len(errors)), labels=[str(points) for points in errors])
right.set(xlabel="points", ylabel="relative error", title=f"trained on {COARSE} points")
print(report)
print(errors)
plt.show()
