"""What tables would take: in the terminal, and as a part of docs/results.md."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from xdops.measuring.duration import lasting
from xdops.measuring.machine import machine_facts
from xdops.report.table import plain_table
from xdops.report.texts import check_names
from xdops.reproduce.plan import Planned
from xdops.reproduce.tables import find_table
from xdops.storage.documents import Json, read_json, understood, with_digest, without_digest
from xdops.storage.files import write_json

HEADS = ("row", "runs", "epochs", "steps", "Pflop", "here", "per GPU")
WROTE, HINT = "a file that `xdops plan --json` wrote", "delete it, or name another"


def plan_table(title: str, rows: Sequence[Planned], tflops: float) -> Table:
    lines = [(row.label, str(row.runs), f"{row.epochs:,}", *costs(row, tflops)) for row in rows]
    return plain_table(title, HEADS, lines)


def costs(row: Planned, tflops: float) -> tuple[str, str, str, str]:
    """Steps, 10^15 operations, time here, time of a GPU."""
    if row.missing and not row.steps:
        return ("?",) * 4
    pflop = row.flops / 1e15
    return (
        f"{row.steps:,}",
        f"{pflop:,.0f}" if pflop >= 100 else f"{pflop:.3g}",
        lasting(3600 * row.hours),
        lasting(row.flops / (1e12 * tflops)),
    )


def in_all(rows: Sequence[Planned], tflops: float) -> str:
    """The sum in one sentence."""
    total = Planned.sum("all", rows)
    steps, pflop, here, gpu = costs(total, tflops)
    less = f" ({total.missing})" if total.missing else ""
    return (
        f"In all {total.runs:,} runs, {steps} steps, {pflop} Pflop{less}: about {here} on this machine, one run after the other, "
        f"{gpu} on one GPU at {tflops:g} Tflop/s."
    )


def write_plan(path: Path, scale: str, tflops: float, tables: Mapping[str, Sequence[Planned]]) -> None:
    """Tables that the file has already are kept if they were measured at this scale on a machine like this one."""
    rows = {name: [dataclasses.asdict(row) for row in planned] for name, planned in tables.items()}
    plan = {"plan": scale, "tflops": tflops, "machine": machine_facts(), "tables": rows}
    if path.exists():
        before = read_plan(path)
        if all(before.get(name) == plan[name] for name in ("plan", "machine")):
            plan["tables"] = {**before["tables"], **rows}
    write_json(path, with_digest(plan))


def read_plan(path: Path) -> Json:
    found = without_digest(path, read_json(path, WROTE, HINT), hint=HINT)
    with understood(path, WROTE, HINT):
        check_names(found)
        return {**found, "tables": dict(found["tables"])}


def plan_section(path: Path) -> str:
    """Of docs/results.md, from the file if it is there: a line per table with runs of its own, and the sum."""
    if not path.exists():
        return ""
    found = read_plan(path)
    with understood(path, WROTE, HINT):
        tflops, machine = float(found["tflops"]), found["machine"]
        tables = {name: [Planned(**row) for row in rows] for name, rows in found["tables"].items() if find_table(name).has_own_runs}
        sums = {name: Planned.sum(name, rows) for name, rows in tables.items()}
        lines = [(name, str(len(tables[name])), str(total.runs), *costs(total, tflops)) for name, total in sums.items()]
        every = [row for rows in tables.values() for row in rows]
        missing = sorted({f"{name}: {row.label}" for name, rows in tables.items() for row in rows if row.missing})
        where = f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}"
        return "\n".join(
            [
                f"## What all of it would take, {found['plan']} scale\n",
                f"```\nxdops plan --scale {found['plan']} --tflops {tflops:g} --json {path.as_posix()}\n```\n",
                f"| table | rows | runs | steps | Pflop | on {where} | on one GPU at {tflops:g} Tflop/s |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *(f"| {' | '.join(line)} |" for line in lines),
                "",
                in_all(every, tflops)
                + " From a few measured steps of every network and the operations counted in them; a GPU reaches the rate that is "
                "taken here only in part. `xdops plan TABLE` tells it row by row.\n",
                *([f"Not counted, since their data are not there: {'; '.join(missing)}.\n"] if missing else []),
            ]
        )
