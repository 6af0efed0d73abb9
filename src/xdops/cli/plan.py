"""`xdops plan`: what a table of the paper would take, before anybody starts it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from xdops.cli import terminal
from xdops.cli.measured import check_json
from xdops.cli.search import MaybePath, MaybeText
from xdops.errors import XDError
from xdops.report.plan import in_all, plan_table, read_plan, write_plan
from xdops.reproduce.plan import Known, plan_rows
from xdops.reproduce.tables import Context, Scale, find_table
from xdops.reproduce.tables.paper import tables_of_the_paper


@dataclass(frozen=True)
class Plan:
    """What tables of the paper would take: runs, epochs, steps, operations and time, from a few measured steps of every network.

    Time here is that of one run after the other on this machine, as busy as it is now; time per GPU is that of the operations at
    the rate given with --tflops, which a GPU reaches in practice only in part. Nothing is written but the file of --json.

    examples:
      xdops plan burgers --scale paper
      xdops plan --scale paper --tflops 20           all tables of the paper, and their sum
    """

    table: Annotated[MaybeText, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = None
    """Which one; xdops reproduce --list names them. Default: all of the paper."""
    scale: Scale = "paper"
    """laptop or paper."""
    tflops: float = 10.0
    """Operations that a GPU is taken to make, in 10^12 per second."""
    data_dir: MaybePath = None
    """Where the data are; rows whose data are missing are listed without their time."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to write each table once it is measured, beside those that this machine measured before; results/plan-paper.json is
    what docs/results.md is made from."""

    def run(self) -> int:
        if not 0 < self.tflops < 1e6:
            raise XDError(f"--tflops {self.tflops}", "a positive number", "--tflops 10")
        check_json(self.json, "xdops plan")
        if self.json is not None and self.json.exists():
            read_plan(self.json)  # refused before anything is measured
        console, found = terminal.console(), {}
        known: Known = {}
        names = tables_of_the_paper() if self.table is None else [self.table]
        for name in names:
            table = find_table(name)
            if self.table is None and not table.has_own_runs:  # another table's, which are not counted twice
                continue
            planned = []
            with console.status(f"{table.title}: measuring") as status:
                for row in plan_rows(table.rows(Context(self.scale, self.data_dir)), known):
                    planned.append(row)
                    status.update(f"{table.title}: measured {row.label}")
            if not planned:
                continue
            found[name] = planned
            if self.json is not None:
                write_plan(self.json, self.scale, self.tflops, {name: planned})
            console.print(plan_table(f"{table.title}, {self.scale} scale", planned, self.tflops))
            for row in (row for row in planned if row.missing):
                console.print(f"{row.label}: {row.missing}", soft_wrap=True)
        if not found:
            raise XDError(f"table {self.table} at scale {self.scale}, of which nothing is trained", "another", "xdops plan")
        console.print(in_all([row for rows in found.values() for row in rows], self.tflops), soft_wrap=True)
        return 0
