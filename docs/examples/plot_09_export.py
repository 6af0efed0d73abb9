"""
Export, and run without torch
=============================

A searched network, merged, leaves as one ONNX file in real arithmetic, with any batch size. Before the file is written it is run by
onnxruntime and compared with the network. A run of ``xdops search`` leaves by ``xdops export runs/mine net.onnx``, with the scaling
of its data inside.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import xdops

torch.manual_seed(0)
x = torch.randn(8, 1, 16)
model = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 1, 3, padding=1))
xdops.convert_(model, x)
with torch.no_grad():  # as if it had been trained
    for parameter in xdops.arch_parameters(model):
        parameter += 0.05 * torch.randn_like(parameter)

# %%
# One line. Without the extra (``pip install 'xdops[onnx]'``) the same works with ``net.pt2``, torch's own exported program.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "net.onnx"
done = xdops.export(model, x, path)
print(f"{done.size / 1e3:.0f} kB, largest relative error {done.error:.1e}, checked by {done.checked_by}")

# %%
# Somewhere else, without torch:

import onnxruntime  # noqa: E402

session = onnxruntime.InferenceSession(path)
(asked,) = session.get_inputs()
print(asked.name, asked.shape)
batch = np.random.default_rng(0).normal(size=(3, 1, 16)).astype(np.float32)
(said,) = session.run(None, {asked.name: batch})

# %%

with torch.no_grad():
    meant = model.eval()(torch.from_numpy(batch)).numpy()
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for i, (one, other) in enumerate(zip(said[:, 0], meant[:, 0], strict=True)):
    axes.plot(other, color=f"C{i}", lw=4, alpha=0.3, label="torch" if i == 0 else None)
    axes.plot(one, color=f"C{i}", lw=1, label="onnxruntime" if i == 0 else None)
axes.set(title=f"largest difference {np.abs(said - meant).max():.1e}")
axes.legend()
folder.cleanup()
plt.show()
