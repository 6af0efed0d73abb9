"""What the commands print with: plain words are printed as they are, square brackets and colons included."""

import os
from typing import Any

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the door knows what to do


def console(**options: Any) -> Console:
    """A console that reads no markup into names and paths, and prints where a terminal is said to have no columns at all."""
    if os.environ.get("COLUMNS") == "0":
        options.setdefault("width", 80)
    return _Console(markup=False, highlight=False, emoji=False, **options)
