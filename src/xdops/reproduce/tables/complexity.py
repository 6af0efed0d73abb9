"""What XD-operations cost where they replace a network's convolutions: time, memory and parameters (Appendix B)."""

from functools import partial

from xdops.reproduce.cost import CASES, measure_cost
from xdops.reproduce.table import Context, MeasuredRow, Row, Table

METRICS = ("minutes per epoch", "memory (GB)", "parameters (millions)")

#: The paper's, on a V100; it counts a complex parameter once, we count both of its parts.
PAPER = {
    ("wrn-40-4", "conv"): (1.4, 3.73, 8.96),
    ("wrn-40-4", "xd"): (4.3, 15.6, 9.08),
    ("darcy", "conv"): (0.028, 4.51, 0.701),
    ("darcy", "xd"): (0.14, 5.53, 0.744),
    ("psicov", "conv"): (5.9, 1.50, 0.038),
    ("psicov", "xd"): (11, 10.7, 0.549),
}

METHODS = {"conv": "Conv", "xd": "XD"}
#: A laptop has not the memory for the paper's batch.
LAPTOP_BATCH = {"wrn-40-4": 16}
STEPS = 3


def measure(case: str, what: str, batch_size: int, seed: int) -> dict[str, float]:
    return measure_cost(case, what, batch_size, STEPS)


def rows(context: Context) -> list[Row]:
    found: list[Row] = []
    for name, case in CASES.items():
        batch = LAPTOP_BATCH.get(name, case.batch_size) if context.scale == "laptop" else case.batch_size
        for what, method in METHODS.items():
            found.append(
                MeasuredRow(
                    method=method,
                    setting={"network": case.name},
                    seeds=(0,),
                    settings={"batch_size": batch, "steps": STEPS, "depth": case.depth, "examples per epoch": case.examples},
                    paper=dict(zip(METRICS, PAPER[name, what], strict=True)),
                    measure=partial(measure, name, what, batch),
                )
            )
    return found


HOW = (
    "Minutes per epoch are those of three training steps, after a first one that is not counted, times the steps of an epoch. A "
    "complex parameter counts as two numbers here, as one in the paper, which measured on a V100."
)
SMALLER = f" WRN-40-4 in batches of {LAPTOP_BATCH['wrn-40-4']} instead of 128: its memory is not the paper's."

COMPLEXITY = Table(
    "complexity",
    "What XD-operations cost in place of convolutions",
    "Table 4",
    METRICS[0],
    rows,
    notes={"laptop": HOW + SMALLER, "paper": HOW},
)
