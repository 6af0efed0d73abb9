"""A table of the paper as reproduced here, for the terminal."""

from typing import Any

from rich import box
from rich.table import Table


def show(value: float | None, percent: bool) -> str:
    """As the paper prints it: four decimals below one, or percent."""
    if value is None:
        return "–"
    if percent:
        return f"{100 * value:.1f}"
    return f"{value:.4f}" if 0.001 <= abs(value) < 1 else f"{value:.4g}"


def terminal_table(found: dict[str, Any]) -> Table:
    table = Table(title=found["title"], box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for head in ("method", "setting", "metric"):
        table.add_column(head)
    for head in ("here", "±", "paper", "seeds", "s/epoch"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found["rows"]:
        setting = ", ".join(f"{k} {v}" for k, v in row["setting"].items())
        percent = found["percent"]
        table.add_row(
            row["method"], setting, row["metric"], show(row["mean"], percent), show(row["spread"], percent),
            show(row["paper"], percent), str(len(row["seeds"])),
            f"{row['seconds_per_epoch']:.2f}" if "seconds_per_epoch" in row else "–",
        )  # fmt: skip
    return table
