"""
A causal network that finds out how far to look back
====================================================

A temporal convolutional network without dilation sees a few steps only. As shift-invariant XD-operations each of its taps becomes a
filter of 32 points, learned, the same at every step, and never looking ahead. The task: say what the input was 12 steps ago.
"""

import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import xdops
from xdops.backbones.request import Request
from xdops.backbones.tcn import TCN, receptive_field

STEPS = 3 if os.environ.get("XDOPS_TINY") else 400
AGO = 12
KERNEL, LEVELS = 3, 2
print(f"the network sees {receptive_field(LEVELS, KERNEL, dilated=False)} steps, and is asked for one {AGO} steps ago")

torch.manual_seed(0)
x = torch.randn(256, 1, 64)
target = nn.functional.pad(x, (AGO, 0))[..., :64]


def make() -> TCN:
    torch.manual_seed(1)
    return TCN(Request("next-step", 1, 1, (64,)), LEVELS, KERNEL, width=8, dilated=False, normed=False)


def train(model: nn.Module, groups: list) -> list[float]:
    optimizer, losses = torch.optim.Adam(groups), []
    for step in range(STEPS):
        batch = torch.arange(step * 32, step * 32 + 32) % 224
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[batch])[..., AGO:], target[batch][..., AGO:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


plain, searched = make(), make()
xdops.convert_(
    searched,
    x[:2],
    xdops.XDConfig(shift_invariant=True, causal=True, span=32, depth=1),
    filter_fn=lambda name, layer: getattr(layer, "kernel_size", (1,)) != (1,),
)
curves = {
    "TCN": train(plain, [{"params": list(plain.parameters()), "lr": 3e-3}]),
    "TCN, XD": train(searched, xdops.parameter_groups(searched, lr=3e-3, arch_lr=3e-3)),
}

# %%
# Left: only the searched network learns anything. Right: what the taps of the first layer have become.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name, losses in curves.items():
    left.plot(losses, label=name)
left.set(xlabel="step", ylabel="mean squared error")
left.legend()
operation = searched.levels[0].conv1
with torch.no_grad():
    for tap, row in enumerate(operation.rows_of_taps()[0].real):
        right.plot(range(1 - len(row), 1), row, marker=".", label=f"tap {tap}")
right.set(xlabel="steps before the present", title="what each tap looks at")
right.legend()

# %%
# No output depends on a later input, whatever was learned.

with torch.no_grad():
    changed = x[:1].clone()
    changed[..., 40:] += 1.0
    difference = (searched(changed) - searched(x[:1])).abs()[0, 0]
print(f"largest change before step 40: {float(difference[:40].max()):.1e}, after it: {float(difference[40:].max()):.1e}")
plt.show()
