"""Text of files that somebody else may have written, looked at before pages and terminals show it."""

import re
from collections.abc import Iterator
from typing import Any

#: Pages and terminals would obey these: tags; and within a line of Markdown links, code, cells of a table and further lines.
_TAG, _MARK, _CELL = r"<[A-Za-z/!?]", r"\]\(|[`\n]", r"\|"


def check_text(value: Any) -> None:
    """Refuse tags and control characters in any text of JSON data."""
    for text in _texts(value):
        if re.search(_TAG, text) or not text.replace("\n", " ").isprintable():
            raise ValueError(f"the text {text[:80]!r}")


def check_words(value: Any) -> None:
    """Refuse whatever is more than words within a line of Markdown, too, but for bars, which pages of results escape."""
    check_text(value)
    _refuse(_MARK, value)


def check_names(value: Any) -> None:
    """Refuse bars as well."""
    check_words(value)
    _refuse(_CELL, value)


def _refuse(pattern: str, value: Any) -> None:
    for text in _texts(value):
        if re.search(pattern, text):
            raise ValueError(f"the text {text[:80]!r}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)
