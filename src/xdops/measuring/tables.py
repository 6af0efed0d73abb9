"""Rows of words as a table: for a terminal, and for a notebook."""

from collections.abc import Sequence
from html import escape


def filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns of a table that are not empty throughout."""
    return [column for column in zip(head, *rows, strict=True) if any(column[1:]) or not rows]


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """For a notebook; names may be a user's, and are escaped."""
    first, *others = zip(*filled(head, rows), strict=True)

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line("td", cells) for cells in others)
    return f"<table>\n<caption>{escape(caption)}</caption>\n<thead>{line('th', first)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned, columns that are empty throughout left out."""
    columns = filled(head, rows)
    widths = [max(map(len, column)) for column in columns]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in zip(*columns, strict=True)]
    return "\n".join((lines[0], "-" * max(map(len, lines)), *lines[1:]))
