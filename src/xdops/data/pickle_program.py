"""What a pickle asks for, looked at before it is done: only instructions that build plain data, none beyond the file's own size."""

import pickletools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class RefusedPickle(Exception):
    """Something that plain data has no need of."""


#: The instructions of plain data, in all protocols. Left out: objects of classes, references to other files, recursive tuples.
PLAIN = re.compile(
    """
    PROTO | FRAME | STOP | MARK | PUT | BINPUT | LONG_BINPUT | MEMOIZE | GET | BINGET | LONG_BINGET
    | NONE | NEWTRUE | NEWFALSE | INT | BININT[12]? | LONG[14]? | FLOAT | BINFLOAT
    | STRING | BINSTRING | SHORT_BINSTRING | UNICODE | SHORT_BINUNICODE | BINUNICODE8?
    | SHORT_BINBYTES | BINBYTES8? | BYTEARRAY8 | EMPTY_LIST | APPENDS? | LIST | EMPTY_TUPLE | TUPLE[123]?
    | EMPTY_DICT | DICT | SETITEMS? | EMPTY_SET | ADDITEMS | FROZENSET | GLOBAL | STACK_GLOBAL | REDUCE | BUILD
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Effect:
    """What an instruction does to the stack: values taken, after those since the last mark, and values put."""

    since_mark: bool
    taken: int
    put: int


def _effect(instruction: pickletools.OpcodeInfo) -> Effect:
    marks = (pickletools.markobject, pickletools.stackslice)
    before = instruction.stack_before
    return Effect(pickletools.stackslice in before, sum(kind not in marks for kind in before), len(instruction.stack_after))


EFFECTS = {instruction.name: _effect(instruction) for instruction in pickletools.opcodes if PLAIN.fullmatch(instruction.name)}


def check_instructions(data: bytes) -> None:
    """Refuse programs that are not whole, use other instructions, or would make the unpickler itself take more than its share.

    Followed here is only whether a value is a tuple. Tuples may not be keys: the hash of one walks through all that it holds, for
    a nested one until the stack overflows, for one that holds the same tuples again and again until the end of time.
    """
    is_tuple: list[bool] = []  # of every value on the stack
    marks: list[int] = []
    memo: dict[int, bool] = {}
    end = -1
    for done, (instruction, given, position) in enumerate(pickletools.genops(data)):
        name, argument, end = instruction.name, given or 0, position or 0
        if name not in EFFECTS:
            raise RefusedPickle(f"the instruction {name}")
        if name == "MARK":
            marks.append(len(is_tuple))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            number = len(memo) if name == "MEMOIZE" else argument
            if number > done:  # the unpickler makes a table of that size
                raise RefusedPickle(f"an object numbered {number} among fewer objects")
            memo[number] = is_tuple[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            is_tuple.append(memo[argument])
        elif name == "FRAME" and argument > len(data):
            raise ValueError("a frame beyond the end")
        else:
            effect = EFFECTS[name]
            since_mark = _take(is_tuple, len(is_tuple) - marks.pop()) if effect.since_mark else []
            before_mark = _take(is_tuple, effect.taken)
            if any(_hashed(name, before_mark, since_mark)):
                raise RefusedPickle("a tuple as a key")
            is_tuple += [name.startswith(("TUPLE", "EMPTY_TUPLE"))] * effect.put
    if is_tuple or marks:  # STOP has taken the result
        raise ValueError("values left over")
    if end != len(data) - 1:
        raise ValueError("bytes after its end")


def _take(stack: list[Any], count: int) -> list[Any]:
    """The last values, taken off the stack."""
    if not 0 <= count <= len(stack):
        raise IndexError("an instruction without its values")
    first = len(stack) - count
    values = stack[first:]
    del stack[first:]
    return values


def _hashed(name: str, before_mark: list[bool], since_mark: list[bool]) -> Iterable[bool]:
    """Of the values that an instruction takes, those that become keys of a dictionary or members of a set."""
    match name:
        case "SETITEM":
            return before_mark[1:2]
        case "SETITEMS" | "DICT":
            return since_mark[::2]
        case "ADDITEMS" | "FROZENSET":
            return since_mark
    return ()
