"""The one error a user meets: it says what was given, what was expected, and what to try."""

from collections.abc import Sequence


class XDError(ValueError):
    """Bad input to xdops.

    >>> raise XDError("a signal of length 300", "at most 256, the operation's size", "crop it, or convert at 300")
    Traceback (most recent call last):
    xdops.errors.XDError: given a signal of length 300; expected at most 256, the operation's size; try: ...
    """

    def __init__(self, given: str, expected: str, hint: str) -> None:
        self.given, self.expected, self.hint = given, expected, hint
        super().__init__(f"given {given}; expected {expected}; try: {hint}")

    def __reduce__(self) -> tuple[type["XDError"], tuple[str, str, str]]:
        return XDError, (self.given, self.expected, self.hint)


def several(count: int, noun: str) -> str:
    """1 sequence, 2,000 sequences."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """a, b, c; the first of many."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def said(error: BaseException) -> str:
    """What an error says; nothing where even that fails, as it may with errors of others."""
    try:
        return str(error).strip()
    except Exception:
        return ""


def first_line(error: BaseException) -> str:
    """What another library's error says, in a line: the rest of some goes on for pages."""
    text = said(error)
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__


def last_line(error: BaseException) -> str:
    """What an error says that holds the traceback of another process."""
    return (said(error).splitlines() or [type(error).__name__])[-1][:300]


#: How libraries say that there is no memory.
_OUT_OF_MEMORY = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "std::bad_alloc",
    "failed to map segment",  # of a library that is loaded late
    "could not create a primitive",  # what oneDNN says
)


def is_memory(error: BaseException) -> bool:
    """Whether the error, or what led to it, says that there is no memory."""
    seen: list[BaseException] = []  # an error may be said to come from itself
    before: BaseException | None = error
    while before is not None and before not in seen:
        if isinstance(before, MemoryError) or (
            isinstance(before, RuntimeError | ImportError | OSError)
            and any(words in said(before).lower() for words in _OUT_OF_MEMORY)
        ):
            return True
        seen.append(before)
        before = before.__cause__ or before.__context__
    return False
