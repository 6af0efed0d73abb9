"""LeNet on few images, for what the paper's table leaves open: auxiliary losses, rounding, one step size for all images."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import torch

from xdops.data.cifar import OFFICIAL, Release
from xdops.data.objective import accuracy
from xdops.reproduce.cifar import AUXILIARY, ENTROPY, IMAGES, NORMAL, PERMUTED, SHARED, Architecture, Preset, load_images
from xdops.reproduce.cifar.presets import LENET_SCHEDULE
from xdops.reproduce.cifar.presets import PRESETS as OF_THE_PAPER
from xdops.reproduce.cifar.problem import METRIC, Images
from xdops.reproduce.table import Context, Judged, NoveltyFigure, Row, SearchRow, Table
from xdops.reproduce.tables.cifar import prepare, row
from xdops.reproduce.tables.novelty import distances
from xdops.search import Silent, Split, load_weights, search
from xdops.spaces import discretize_

LAPTOP = Preset(
    "LeNet",
    epochs=8,
    lr=0.02,
    schedule=LENET_SCHEDULE,
    architecture={
        ("XD", NORMAL): Architecture(2e-4),
        (SHARED, NORMAL): Architecture(2e-3),
        ("DARTS", PERMUTED): Architecture(1e-1, warmup=2, perturb=0.1),
        ("XD", PERMUTED): Architecture(2e-3),
        (AUXILIARY, PERMUTED): Architecture(2e-3),
        (ENTROPY, PERMUTED): Architecture(2e-3),
    },
    batch_size=64,
    train=10_000,
    test=2_000,
    held_out=1_000,
)
PAPER = dataclasses.replace(
    OF_THE_PAPER["paper"][0],
    architecture={
        **OF_THE_PAPER["paper"][0].architecture,
        (SHARED, NORMAL): Architecture(1e-3),
        (ENTROPY, PERMUTED): Architecture(1e-3),
    },
)
PRESETS: Mapping[str, Preset] = {"laptop": LAPTOP, "paper": PAPER}

ROUNDED, RETRAINED = f"{METRIC}, rounded", f"{METRIC}, rounded and trained again"


def judge_rounding(preset: Preset, images: str, load: Callable[[], Images], folder: Path, seed: int) -> Judged:
    """The mixtures that the run in `folder` has found, rounded to their strongest operations: as they are, and with the weights
    trained again from their start, at the same settings.
    """
    found, again = (prepare(preset, "DARTS", images, load, seed) for _ in range(2))
    load_weights(folder, found.network, "last")
    again.network.load_state_dict({k: v for k, v in found.network.state_dict().items() if k.endswith(".logits")}, strict=False)
    for network in (found.network, again.network):
        discretize_(network)
    test = found.problem.test
    assert isinstance(test, Split)
    with torch.no_grad():
        outputs = torch.cat([found.network.eval()(x) for x in test.x.split(250)])
    settings = dataclasses.replace(again.settings, seed=seed)
    describe = {**again.describe, "rounded": True}
    result = search(again.network, again.problem, settings, folder / "rounded", resume=True, describe=describe, progress=Silent())
    return Judged({ROUNDED: float(accuracy(outputs, test.y)), RETRAINED: result.test_at_last}, {})


def rows(context: Context, presets: Mapping[str, Preset] = PRESETS, release: Release = OFFICIAL) -> list[Row]:
    preset = presets[context.scale]
    load = cache(partial(load_images, context.data_dir, preset.train, preset.test, release))
    found = []
    for images in IMAGES:
        for method in preset.methods(images):
            own = row(preset, method, images, load)
            assert isinstance(own, SearchRow)
            judge = partial(judge_rounding, preset, images, load) if method == "DARTS" and images == PERMUTED else None
            found.append(dataclasses.replace(own, paper=None, judge=judge))
    return [*found]


def control_rows(context: Context) -> list[Row]:
    return [distances(r) for r in rows(context) if r.method in ("XD", SHARED)]


MEANING = f"""`{AUXILIARY}` pulls M to an order that is found outside of the network, from how alike rows and columns are;
`{ENTROPY}` knows nothing but the matrix: the entropy of the rows and columns of |Q|^2, with a weight that rises through training
(`xdops.reproduce.cifar.entropy_penalty`). Compare them seed by seed (the values are in
`results/lenet-laptop.json`): a seed draws the permutation. `{ROUNDED}`: every mixture of
DARTS replaced by its strongest operation, the weights as they are, or trained again from their start. `{SHARED}`: images as they
are, with the architecture's step size of the permuted ones. Accuracies on the test images after the last epoch."""
SMALLER = """ 9,000 training images and 8 epochs in batches of 64; nothing is tuned here: step sizes of the architecture are twice
the paper's, the same for every XD row on permuted images, and both penalties have been tried at one weight alone."""

TABLE = Table(
    "lenet",
    "LeNet on few images: auxiliary losses, rounding, one step size",
    "section 4.1 and its footnote, Figure 2",
    METRIC,
    rows,
    lower_is_better=False,
    percent=True,
    notes={"laptop": MEANING + SMALLER, "paper": MEANING},
)
CONTROL = Table(
    "novelty-control",
    "Distance of the operations found from the backbone's, at one step size",
    "Figure 2",
    "relative distance from the start",
    control_rows,
    lower_is_better=None,
    figures=(NoveltyFigure({"network": "LeNet"}, "LeNet"),),
    notes=dict.fromkeys(
        ("laptop", "paper"),
        "As the table `novelty`, of the runs of the table `lenet`, with the control: images as they are at the architecture's step "
        "size of the permuted ones.",
    ),
    runs="lenet",
)
