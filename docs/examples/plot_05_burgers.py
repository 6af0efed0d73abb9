"""
Burgers' equation, beside a Fourier neural operator
===================================================

From the state of a fluid at time 0 to that at time 1: a map between functions. Three networks of one family learn it from solved
examples: convolutions, Fourier layers, which were made for this, and XD-operations that start as the convolutions.
``xdops reproduce burgers`` does it at full length.
"""

import os

import matplotlib.pyplot as plt
import torch

import xdops
from xdops.backbones.fno import operator_fno
from xdops.backbones.operator import operator_cnn
from xdops.backbones.request import Request
from xdops.pde import BurgersSettings, make_burgers

TINY = bool(os.environ.get("XDOPS_TINY"))
TRAIN, TEST, POINTS, EPOCHS = (8, 4, 32, 1) if TINY else (192, 32, 64, 12)

known, asked = map(torch.from_numpy, make_burgers(BurgersSettings(TRAIN + TEST, POINTS), range(TRAIN + TEST)))
place = torch.linspace(0, 1, POINTS).expand(len(known), -1)
x, y = torch.stack((known, place), dim=1), asked[:, None]


def error(model: torch.nn.Module, part: slice) -> torch.Tensor:
    """|prediction - truth| / |truth|, mean over functions."""
    away = (model(x[part]) - y[part]).flatten(1).norm(dim=1)
    return (away / y[part].flatten(1).norm(dim=1)).mean()


def train(model: torch.nn.Module, groups: list) -> list[float]:
    optimizer, errors = torch.optim.Adam(groups), []
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(TRAIN).split(8):
            optimizer.zero_grad()
            error(model, batch).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            errors.append(float(error(model.eval(), slice(TRAIN, None))))
        model.train()
    return errors


# %%

request = Request("dense", 2, 1, (POINTS,))
networks, errors = {}, {}
for name, build in (("CNN", operator_cnn), ("FNO", operator_fno), ("CNN, XD", operator_cnn)):
    torch.manual_seed(0)
    model = build(request, 16)
    if name.endswith("XD"):
        xdops.convert_(model, x[:2], filter_fn=lambda name, layer: name.endswith(".operation"))
        groups = xdops.parameter_groups(model, lr=2e-3, arch_lr=2e-3)
    else:
        groups = [{"params": list(model.parameters()), "lr": 2e-3}]
    errors[name], networks[name] = train(model, groups), model.eval()

# %%
# Left: the error on functions that were not trained on. Right: one of them. So short a training ranks nothing; the page of results
# has the figures of longer ones, with several seeds.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for name, values in errors.items():
    left.semilogy(range(1, EPOCHS + 1), values, marker=".", label=f"{name}: {values[-1]:.3f}")
left.set(xlabel="epoch", ylabel="relative test error")
left.legend()
right.plot(known[-1], color="lightgray", label="time 0")
right.plot(asked[-1], color="black", label="time 1")
with torch.no_grad():
    for name, model in networks.items():
        right.plot(model(x[-1:])[0, 0], lw=1, ls="--", label=name)
right.set(xlabel="point")
right.legend()
plt.show()
