"""Darcy flow with more steps and larger batches: whether XD-operations gain more from them than the Fourier neural operator."""

import dataclasses
from collections.abc import Mapping

from xdops.reproduce.candidates import ONE
from xdops.reproduce.pde import DARCY, Preset
from xdops.reproduce.pde.presets import POWERS_OF_TWO, adam
from xdops.reproduce.table import Context, Row, Table
from xdops.reproduce.tables.pde import METRIC, row

RESOLUTION, EPOCHS, BATCH = 21, 200, 20

#: What these rows chose on held-out samples in the table `darcy`.
PRESET = dataclasses.replace(
    DARCY["laptop"],
    epochs=EPOCHS,
    batch_size=BATCH,
    lr=1e-3,
    architecture={POWERS_OF_TWO: adam(3e-3)},
    tried=ONE,
    methods=("FNO", POWERS_OF_TWO),
    at={},
)
PRESETS: Mapping[str, Preset] = {"laptop": PRESET, "paper": PRESET}


def rows(context: Context, presets: Mapping[str, Preset] = PRESETS) -> list[Row]:
    preset = presets[context.scale]
    steps = preset.epochs * -(-(preset.train - preset.held_out) // preset.batch_size)
    setting = {"resolution": RESOLUTION, "steps": steps, "batch": preset.batch_size}
    return [row(preset, method, setting, preset.every[RESOLUTION], None, context.data_dir) for method in preset.methods]


NOTE = """FNO and XD in operations of 32 x 32 points, the best two at 21 x 21 points in the table `darcy`, on the same data, with
the step sizes that they chose there: 4,400 steps with 20 samples, where there were 2,640 with 10. Errors on the test samples
after the last epoch. The same at both scales."""

TABLE = Table(
    "darcy-steps",
    "Darcy flow: more steps and larger batches",
    "section 5, Darcy flow",
    METRIC,
    rows,
    notes={"laptop": NOTE, "paper": NOTE},
)
