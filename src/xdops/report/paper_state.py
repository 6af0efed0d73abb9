"""What of the paper is done here: every table and figure, with the results that there are."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from xdops.report.rows import Results, against_rows_of_the_paper, progress
from xdops.reproduce.tables import TABLES
from xdops.reproduce.tables.paper import PAPER, Exhibit


def paper_state(results: Sequence[Results]) -> list[tuple[str, str, str]]:
    """Place in the paper, what it is, and its state; tables that the paper does not have come last."""
    lines = [(exhibit.place, exhibit.what, state(exhibit, results)) for exhibit in PAPER]
    named = {name for exhibit in PAPER for name in exhibit.tables}
    titles = {r["table"]: r["title"] for r in results}
    more = [name for name in dict.fromkeys([*TABLES, *titles]) if name not in named]
    return lines + [("beyond", titles.get(name, name), table_state(name, results)) for name in more]


def state(exhibit: Exhibit, results: Sequence[Results]) -> str:
    if exhibit.kind == "diagram":
        return "nothing to run"
    if exhibit.kind == "settings":
        users = [name for name in exhibit.tables if name in TABLES]
        return f"used by {', '.join(users)} at paper scale" if users else "not yet"
    return "; ".join(table_state(name, results) for name in exhibit.tables)


def table_state(name: str, results: Sequence[Results]) -> str:
    """What there is of a table, counted in the paper's rows: a method at one setting.

    "burgers: 4 of 24 rows of the paper, 2 at other settings, laptop scale", "burgers: available, not run", or "not yet".
    """
    parts = [f"{counted(r)}, {r['scale']} scale" for r in results if r["table"] == name]
    if parts:
        return f"{name}: {'; '.join(parts)}"
    return f"{name}: available, not run" if name in TABLES else "not yet"


def counted(results: Results) -> str:
    in_paper, run, other = against_rows_of_the_paper(results)
    parts = [f"{run} of {in_paper} rows of the paper"] if in_paper else []
    parts += [f"{other} {'at other settings' if in_paper else 'rows'}"] if other else []
    done, planned = progress(results)
    return ", ".join(parts + ([f"{done} of {planned} runs finished"] if done < planned else []))


def state_table(results: Sequence[Results]) -> Table:
    table = Table(
        title="The paper's tables and figures",
        caption="NAME: ... is run by xdops reproduce NAME --scale laptop|paper",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for head in ("in the paper", "what", "here"):
        table.add_column(head, no_wrap=head == "in the paper")
    for place, what, now in paper_state(results):
        style = "green" if " scale" in now else "dim" if now in ("not yet", "nothing to run") else None
        table.add_row(place, what, now, style=style)
    return table
