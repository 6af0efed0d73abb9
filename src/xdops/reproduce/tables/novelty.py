"""How far the operations found are from the backbone's, on images as they are and on permuted ones: the runs of the table cifar."""

import dataclasses

from xdops.reproduce.table import Context, NoveltyFigure, Row, SearchRow, Table
from xdops.reproduce.tables import cifar
from xdops.reproduce.tables.registry import SCALES


def rows(context: Context) -> list[Row]:
    found = [r for r in cifar.rows(context) if isinstance(r, SearchRow) and r.method == "XD"]
    return [dataclasses.replace(r, paper=None, report="novelty") for r in found]


TABLE = Table(
    "novelty",
    "Distance of the operations found from the backbone's",
    "Figure 2",
    "relative distance from the start",
    rows,
    lower_is_better=None,
    figures=tuple(NoveltyFigure({"network": name}, name) for name in ("LeNet", "ResNet-20")),
    notes=dict.fromkeys(
        SCALES,
        "Mean over the searched layers of the relative Euclidean distance of their architecture parameters from the start, after "
        "the last epoch. The paper shows it as curves without numbers. The runs are those of the table `cifar`. "
        "The architecture's step size is ten times larger on permuted images, as in the paper; which is part of the difference.",
    ),
    runs="cifar",
)
