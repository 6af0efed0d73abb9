"""
A fair comparison
=================

Step sizes decide who wins. ``xdops search --trials N`` tunes the backbone and every search space on the validation part, all with
as many trials and epochs, before it compares them. Here with few trials and epochs; the command that this stands for is printed.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from xdops.cli.main import main
from xdops.experiments.finished import Finished

TINY = bool(os.environ.get("XDOPS_TINY"))
TRIALS, EPOCHS, SEEDS = (2, 1, 1) if TINY else (6, 6, 3)

folder = tempfile.TemporaryDirectory()
out = Path(folder.name) / "run"
words = f"search --spaces backbone,xd --trials {TRIALS} --epochs {EPOCHS} --seeds {SEEDS}"
print(f"xdops {words}")
code = main([*words.split(), "--quiet", "--out", str(out)])

# %%
# Every trial, by its step size: the closer two spaces' dots are, the less it was the step size that decided.

finished = Finished.open(out)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for space, tuned in finished.tuned().items():
    trials = [trial for trial in tuned.trials if trial.best is not None]
    axes.scatter([t.values["lr"] for t in trials], [100 * t.best.validation_metric for t in trials], label=f"{space}, trials")
for i, space in enumerate(("backbone", "xd")):
    for seed in range(SEEDS):
        lr = finished.tuned()[space].values["lr"]
        axes.scatter(lr, 100 * finished.result(space, seed).test_at_best, marker="*", s=90, color=f"C{i}", edgecolor="black")
axes.set(
    xscale="log", xlabel="step size of the weights", ylabel="accuracy (%)", title="dots: validation; stars: test, chosen setting"
)
axes.legend()
folder.cleanup()
plt.show()
