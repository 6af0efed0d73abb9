"""Tables and figures of the paper as data: what each row runs, and what the paper says."""

from xdops.tasks.tables.registry import SCALES, TABLES, Scale, find_table
from xdops.tasks.tables.table import Context, CurvesFigure, LineFigure, MeasuredRow, NoveltyFigure, Prepared, Row, SearchRow, Table

__all__ = [
    "SCALES",
    "TABLES",
    "Context",
    "CurvesFigure",
    "LineFigure",
    "MeasuredRow",
    "NoveltyFigure",
    "Prepared",
    "Row",
    "Scale",
    "SearchRow",
    "Table",
    "find_table",
]
