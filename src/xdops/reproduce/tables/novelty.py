"""How far the operations found are from the backbone's, on images as they are and on permuted ones: the runs of the table cifar."""

import dataclasses

from xdops.reproduce.table import Context, NoveltyFigure, Row, SearchRow, Table, TunedRow
from xdops.reproduce.tables import cifar
from xdops.reproduce.tables.registry import SCALES


def rows(context: Context) -> list[Row]:
    """A tuned row is the same choice here: it is made by the accuracy."""
    return [distances(r) for r in cifar.rows(context) if r.method == "XD" and r.seeds]


def distances(row: Row) -> Row:
    if isinstance(row, TunedRow):
        candidates = {name: dataclasses.replace(c, paper=None, report="novelty") for name, c in row.candidates.items()}
        return dataclasses.replace(row, paper=None, candidates=candidates)
    assert isinstance(row, SearchRow)
    return dataclasses.replace(row, paper=None, report="novelty")


TABLE = Table(
    "novelty",
    "Distance of the operations found from the backbone's",
    "Figure 2",
    "relative distance from the start",
    rows,
    lower_is_better=None,
    figures=tuple(NoveltyFigure({"network": name}, name) for name in ("LeNet", "ResNet-8", "ResNet-20")),
    notes=dict.fromkeys(
        SCALES,
        "Mean over the searched layers of the relative Euclidean distance of their architecture parameters from the start, after "
        "the last epoch. The paper shows it as curves without numbers. The runs are those of the table `cifar`. In the paper, "
        "and for ResNet-8 here, the architecture's step size is ten times larger on permuted images, which is part of the "
        "difference; LeNet at laptop scale has chosen its step size on held-out images, the same one for both kinds of images.",
    ),
    runs="cifar",
)
