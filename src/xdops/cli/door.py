"""The door of the command line: whatever happens behind it ends in an exit code and at most one line on stderr.

0    done
1    a check failed (`xdops ops`)
2    bad input: one line, and nothing was written; or nothing can be printed: the line says that files from before are whole
70   a mistake of ours: one line that says in which file the traceback is
130  Ctrl-C
141  nobody reads what is printed any more, as after `| head`
"""

import codecs
import logging
import os
import platform
import re
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from xdops import __version__
from xdops.errors import XDError, is_memory, said

BAD_INPUT, MISTAKE, INTERRUPTED, NOBODY_READS = 2, 70, 130, 141

_LONGEST_WORD = 1000

#: How signs are written on a terminal that does not have them.
_PLAIN = {"±": "+-", "–": "-", "—": "-", "×": "x", "µ": "u", "…": "...", "─": "-", "━": "-", "│": "|", "┃": "|", "•": "*"}


def through(action: Callable[[], int], words: Sequence[str]) -> int:
    """Run the action; its exit code, or that of how it ended. words: what the user typed."""
    code = _ending(action, words)
    try:
        sys.stdout.flush()
    except OSError:  # something else was wrong before, and has been said
        drop_output()
    return code


def _ending(action: Callable[[], int], words: Sequence[str]) -> int:
    pressed: list[int] = []
    try:
        with _noting_interrupts(pressed):
            code = action()
            sys.stdout.flush()
            return code
    except XDError as error:
        return say(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        return say("stopped by Ctrl-C", INTERRUPTED)
    except BrokenPipeError:
        drop_output()
        return NOBODY_READS
    except BaseException as error:  # SystemExit too, which no command of ours raises: it would pass for a good end
        if pressed:  # a library that is interrupted while it is loaded may raise anything
            return say("stopped by Ctrl-C", INTERRUPTED)
        if is_memory(error):
            return say(
                f"given work that does not fit into memory ({_first_line(error)}); expected less of it; "
                "try: a smaller batch, grid or network, or fewer processes",
                BAD_INPUT,
            )
        if isinstance(error, OSError) and error.filename is not None:
            return say(f"given {error.filename} ({error.strerror}); expected a file or folder that can be used; try: another", 2)
        if isinstance(error, OSError) and _unwritable(error):
            drop_output()
            return say(
                f"given an output that cannot be printed to ({error.strerror}), while files that were written before are whole; "
                "expected one that can; try: > FILE",
                BAD_INPUT,
            )
        if library := _loading(error):
            return say(
                f"given {library}, which cannot be loaded ({type(error).__name__}: {_first_line(error)}); expected the libraries "
                "that xdops was installed with, and environment variables that they accept; "
                "try: to mend or unset what it complains of, or to install xdops again",
                BAD_INPUT,
            )
        return say(f"a mistake of ours: {type(error).__name__}: {_first_line(error)}. {write_log(error, words)}", MISTAKE)


def _loading(error: BaseException) -> str | None:
    """The library that was being imported when it failed, if one was: an installation is broken, or a variable makes no sense."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__) if _is_module(frame)]
    others = [name.partition(".")[0] for name in names if name.partition(".")[0] not in ("xdops", "__main__")]
    if names and names[-1].partition(".")[0] == "xdops":
        others = []  # one of our own modules
    if not others and isinstance(error, ImportError):
        return (error.name or "a library").partition(".")[0]
    return others[0] if others else None


def _is_module(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>"


@contextmanager
def _noting_interrupts(pressed: list[int]) -> Iterator[None]:
    """Every Ctrl-C is noted, and raises KeyboardInterrupt as before; where somebody else handles it, nothing is changed."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say(text: str, code: int) -> int:
    """One line on stderr, whatever is in the text."""
    try:
        print(f"xdops: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:  # nobody listens there either
        drop_output()
    return code


def one_line(text: str) -> str:
    """Control characters, line ends and what is no text at all, spelled out; words without end, as paths may be, cut short."""
    text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:100]}...{word[0][-100:]}", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def write_log(error: BaseException, words: Sequence[str]) -> str:
    """Where the traceback is, in words; a reader of it needs the version and the command, too."""
    text = (
        f"xdops {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: xdops {' '.join(map(repr, words))}\n\n{''.join(traceback.format_exception(error))}"
    )
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="xdops-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
        ) as log:
            log.write(text)
    except OSError:
        return text  # where nothing can be written, stderr is the last place
    return f"The traceback is in {log.name}; please report it"


def prepare(own_process: bool) -> None:
    """Streams that are there and can print anything. own_process: nobody else uses this process, as for the console script."""
    codecs.register_error("xdops", _spell)
    if own_process:
        for descriptor in range(3):
            _open_if_closed(descriptor)
        sys.unraisablehook = _drop_interrupts
        os._exit = _Asking(os._exit)
        os.environ["MPLBACKEND"] = "agg"  # whatever a notebook has set: nothing is shown in windows
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # what users are to know is said, in one line
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="xdops")


def leave() -> None:
    """Nothing more is to be interrupted: Python is about to end."""
    if isinstance(os._exit, _Asking):
        os._exit = os._exit.real  # type: ignore[assignment]
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Asking:
    """os._exit while a command is at work: code of others that ends the process on the spot would pass for a good end. It raises
    what sys.exit does, which is told as what it is; processes that were forked end as they like."""

    def __init__(self, real: Callable[[int], NoReturn]) -> None:
        self.real, self._process = real, os.getpid()

    def __call__(self, status: int) -> NoReturn:
        if os.getpid() != self._process:
            self.real(status)
        raise SystemExit(status)


def drop_output() -> None:
    """Send what is still to be printed nowhere, so that Python does not stumble over it when it ends."""
    try:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        os.dup2(sys.stdout.fileno(), 1)
    except OSError:
        return


def _drop_interrupts(found: "sys.UnraisableHookArgs") -> None:
    """A Ctrl-C that comes while Python clears something away cannot be raised there; Python would print a traceback of it."""
    if not isinstance(found.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(found)


def _open_if_closed(descriptor: int) -> None:
    """A closed standard stream would give its number to the next file that is opened, which would then be printed into."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "+" if "─" <= c <= "╿" else "?") for c in part), error.end


def _unwritable(error: OSError) -> bool:
    import errno

    return error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, errno.EDQUOT)


def _first_line(error: BaseException) -> str:
    lines = said(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
