"""What the commands print with: plain words are printed as they are, square brackets and colons included."""

import os
import re
from typing import Any

from rich.console import Console
from rich.text import Text

#: What a terminal obeys instead of showing it, but for line ends and tabs: names of files and arrays may hold it.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the door knows what to do

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(_OBEYED.sub(lambda sign: ascii(sign[0])[1:-1], text), **options)


def console(**options: Any) -> Console:
    """A console that reads no markup into names and paths, and prints where a terminal is said to have no columns at all."""
    if os.environ.get("COLUMNS") == "0":
        options.setdefault("width", 80)
    return _Console(markup=False, highlight=False, emoji=False, **options)
