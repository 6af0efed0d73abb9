"""From words to a command: tyro, whose boxes of complaints become one line."""

import contextlib
import dataclasses
import io
import os
import re
from collections.abc import Sequence
from typing import Any

import tyro

from xdops.errors import XDError

#: A complaint is cut here: it may repeat the whole usage.
_LONGEST = 400
#: No path may be longer on any system, and nothing else is that long.
_LONGEST_WORD = 4000


def fill(command: Any, words: Sequence[str], name: str) -> Any:
    """The command's dataclass filled from the words; XDError if they do not fit. None: they asked for help, and tyro has
    printed it."""
    check_words(words, name)
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints):
            return tyro.cli(command, args=list(words), prog=name)
    except SystemExit as ending:
        if not ending.code:
            return None
        given = " ".join(words)
        shown = given if len(given) <= 100 else given[:97] + "..."
        raise XDError(f"{shown or 'nothing'} ({_plain(complaints.getvalue())})", f"what {name} takes", f"{name} --help") from None


def check_words(words: Sequence[str], name: str) -> None:
    """Refuse empty words, which a shell makes of a variable that is not set, and mere spaces: as a path it would be the current
    folder. Refuse ~ that no shell has replaced, as in --out=~/runs: a folder of that name would be made here."""
    for before, word in zip([name, *words], words, strict=False):
        if not word.strip() or (word.startswith("--") and word.rstrip().endswith("=")):
            raise XDError(f"nothing as the value after {word.strip() or before}", "a value", f"{name} --help")
        if len(word) > _LONGEST_WORD:
            raise XDError(
                f"a word of {len(word):,} characters after {before[:100]}", f"at most {_LONGEST_WORD:,}", "a shorter path"
            )
        value = word.partition("=")[2] if word.startswith("--") else word
        if value == "~" or value.startswith("~/"):
            raise XDError(f"{word}, in which ~ does not stand for your home", "a path", "a space before ~ and no quotes, or $HOME")


def in_flags(error: XDError, command: Any) -> XDError:
    """The same, with settings that the command has flags for as it takes them: depth=(1, 3, 1), as from Python, is --depth 1 3 1.

    A flag may be that of a part, as --arch-lr is its lr: the one that was given such a value is meant.
    """
    values = {field.name: getattr(command, field.name) for field in dataclasses.fields(command)}
    meant: dict[str, str] = {}

    def flag(found: re.Match[str]) -> str:
        name, value, before = found["name"], found["value"], found.string[: found.start()]
        if before.count("(") > before.count(")"):  # of a call, XDConfig(depth=3), or said in brackets
            return found[0]
        same = [
            n
            for n, v in values.items()
            if f"_{n}".endswith(f"_{name}") and value in (repr(v), f"{v:g}" if type(v) is float else "")
        ]
        chosen = meant.setdefault(name, same[0] if same else name)
        if chosen not in values or (found["sign"] == " " and not isinstance(values[chosen], tuple)):
            return found[0]
        words = "" if value in ("True", "None") else " " + re.sub("[(),]", "", value)
        return f"{'no ' if value == 'None' else ''}--{chosen.replace('_', '-')}{words}"

    def spelled(text: str) -> str:
        return re.sub(r"(?<!\S)(?P<name>[a-z]\w*)(?P<sign>=| (?=\())(?P<value>\([\d., ]*\)|[^\s;,()]+)", flag, text)

    return XDError(spelled(error.given), spelled(error.expected), spelled(error.hint))


def check_here() -> None:
    """Refuse to work in a folder that somebody has removed: no path would mean anything."""
    try:
        os.getcwd()
    except OSError as error:
        raise XDError(f"a current folder that is gone ({error.strerror})", "one that is there", "cd somewhere else") from error


def _plain(text: str) -> str:
    """Without frames, colours and line ends."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"[─-╿]+|-{5,}", " ", text)
    text = re.sub(r"For full helptext.*", "", " ".join(text.split()))
    text = text.replace("Unrecognized options Unrecognized options", "unrecognized options")
    text = re.sub(r"Invalid choice (invalid choice .*?)\. Expected one of \((.*?)\)\.", _in_order, text)
    text = re.sub(
        r"Value error Error parsing (\S+): no type matching \{None\}\|(\S+) .*? from \['(.*?)'\]\..*",
        r"\1 takes \2, not '\3'",
        text,
    )
    return text.strip()[:_LONGEST]


def _in_order(complaint: re.Match[str]) -> str:
    """What may be chosen, in the same order every time, without the None that stands for not saying it."""
    choices = sorted(set(re.findall(r"'(.*?)'", complaint[2])) - {"None"})
    return f"{complaint[1]}: {', '.join(choices)} may be chosen"
