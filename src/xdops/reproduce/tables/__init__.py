"""Tables and figures of the paper as data: what each row runs, and what the paper says."""

from xdops.reproduce.table import (
    Context,
    CurvesFigure,
    Judged,
    LineFigure,
    MeasuredRow,
    NoveltyFigure,
    PairedFigure,
    Prepared,
    Row,
    SearchRow,
    Table,
)
from xdops.reproduce.tables.registry import SCALES, TABLES, Scale, find_table

__all__ = [
    "SCALES",
    "TABLES",
    "Context",
    "CurvesFigure",
    "Judged",
    "LineFigure",
    "MeasuredRow",
    "NoveltyFigure",
    "PairedFigure",
    "Prepared",
    "Row",
    "Scale",
    "SearchRow",
    "Table",
    "find_table",
]
