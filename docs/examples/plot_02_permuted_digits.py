"""
Digits whose pixels are in an unknown order
===========================================

Handwritten digits of 8 x 8 pixels, the rows and the columns of all images in one unknown order: neighbours mean nothing, and a
convolution is the wrong guess. The same small network is trained as it is, and as its XD search space, whose operations can learn
to put rows and columns back where they belong. ``xdops search`` does the same with five seeds, and says how sure the difference is.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from xdops.data.digits import digit_images, digits_task
from xdops.experiments.network import NetworkSettings
from xdops.experiments.ranges import with_values
from xdops.experiments.recipes import DIGITS
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings, Silent, search

EPOCHS = 1 if os.environ.get("XDOPS_TINY") else 12

plain, labels = digit_images(permuted=False)
permuted, _ = digit_images(permuted=True)
figure, grid = plt.subplots(2, 6, figsize=(8, 3), layout="constrained")
for row, images, title in zip(grid, (plain, permuted), ("as they are", "as they come"), strict=True):
    for axes, image in zip(row, images, strict=False):
        axes.imshow(image, cmap="gray_r")
        axes.set(xticks=[], yticks=[])
    row[0].set_ylabel(title)

# %%
# Weights and architecture by Adam with each network's own step sizes, chosen on validation, as in ``xdops/experiments/recipes.py``.

task = digits_task(permuted=True)
settings = NetworkSettings("small", depth=(3, 3, 3))
results = {}
with tempfile.TemporaryDirectory() as folder:
    for space in ("backbone", "xd"):
        alike = SearchSettings(
            EPOCHS,
            DIGITS.batch_size,
            weights=OptimizerSettings("adam"),
            architecture=OptimizerSettings("adam"),
            schedule=ScheduleSettings("cosine"),
        )
        how = with_values(alike, DIGITS.own[space])
        network = settings.build(task.request, space, seed=0)
        results[space] = search(network, task.problem, how, Path(folder) / space, progress=Silent())

# %%
# One seed each: look at four or more before you believe a difference.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for space, result in results.items():
    accuracy = [100 * record.validation_metric for record in result.history]
    axes.plot(range(1, EPOCHS + 1), accuracy, marker="o", label=f"{space}: test {100 * result.test_at_best:.1f}%")
axes.set(xlabel="epoch", ylabel="validation accuracy (%)")
axes.legend()

print({layer: round(moved, 2) for layer, moved in results["xd"].novelty.items()})
plt.show()
