"""What the commands print with: plain words are printed as they are, square brackets and colons included."""

from typing import Any

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the door knows what to do


def console(**options: Any) -> Console:
    """A console that reads no markup into names and paths."""
    return _Console(markup=False, highlight=False, emoji=False, **options)
