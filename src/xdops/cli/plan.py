"""`xdops plan`: what a table of the paper would take, before anybody starts it."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich import box
from rich.table import Table

from xdops.cli import terminal
from xdops.cli.search import MaybePath, MaybeText
from xdops.errors import XDError
from xdops.measuring.duration import lasting
from xdops.reproduce.plan import Planned, plan_rows
from xdops.reproduce.tables import TABLES, Context, Scale, find_table

HEADS = ("row", "runs", "epochs", "steps", "Pflop", "here", "per GPU")


@dataclass(frozen=True)
class Plan:
    """What tables of the paper would take: runs, epochs, steps, operations and time, from a few measured steps of every row.

    Time here is that of one run after the other on this machine, as busy as it is now; time per GPU is that of the operations at
    the rate given with --tflops, which a GPU reaches in practice only in part. Nothing is written.

    examples:
      xdops plan burgers --scale paper
      xdops plan --scale paper --tflops 20           all tables, and their sum
    """

    table: Annotated[MaybeText, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = None
    """Which one; xdops reproduce --list names them. Default: all."""
    scale: Scale = "paper"
    """laptop or paper."""
    tflops: float = 10.0
    """Operations that a GPU is taken to make, in 10^12 per second."""
    data_dir: MaybePath = None
    """Where the data are; rows whose data are missing are listed without their time."""

    def run(self) -> int:
        if not 0 < self.tflops < 1e6:
            raise XDError(f"--tflops {self.tflops}", "a positive number", "--tflops 10")
        console = terminal.console()
        found: list[Planned] = []
        for name in TABLES if self.table is None else [self.table]:
            table = find_table(name)
            planned = list(plan_rows(table.rows(Context(self.scale, self.data_dir)))) if not table.runs else []
            if planned:
                console.print(self.shown(f"{table.title}, {self.scale} scale", planned))
            for row in (row for row in planned if row.missing):
                console.print(f"{row.label}: {row.missing}", soft_wrap=True)
            found += planned
        if not found:
            raise XDError(f"table {self.table} at scale {self.scale}, of which nothing is trained", "another", "xdops plan")
        console.print(self.total(found), soft_wrap=True)
        return 0

    def shown(self, title: str, planned: list[Planned]) -> Table:
        table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for i, head in enumerate(HEADS):
            table.add_column(head, justify="right" if i else "left")
        for row in planned:
            costs = ("?",) * 4 if row.missing else (f"{row.steps:,}", f"{row.flops / 1e15:.3g}", *self.times(row.hours, row.flops))
            table.add_row(row.label, str(row.runs), f"{row.epochs:,}", *costs)
        return table

    def total(self, planned: list[Planned]) -> str:
        hours, flops = sum(row.hours for row in planned), sum(row.flops for row in planned)
        here, there = self.times(hours, flops)
        runs, steps, missing = (sum(values) for values in zip(*((r.runs, r.steps, bool(r.missing)) for r in planned), strict=True))
        less = f" ({missing} rows not counted, whose data are missing)" if missing else ""
        return (
            f"In all {runs:,} runs, {steps:,} steps, {flops / 1e15:,.3g} Pflop{less}: about {here} on this machine, "
            f"{there} on one GPU at {self.tflops:g} Tflop/s."
        )

    def times(self, hours: float, flops: float) -> tuple[str, str]:
        return lasting(3600 * hours), lasting(flops / (1e12 * self.tflops))
