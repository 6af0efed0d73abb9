"""A batch of CIFAR-10's python version, which is a pickle, read without unpickling it.

A pickle is a program: unpickling runs it. Here its instructions are walked through one by one, and only those that build plain data
are followed: numbers, strings, lists, tuples, dictionaries, and the three names by which numpy writes an array of bytes. Names stay
names: nothing is imported, looked up or called. Any other instruction or name is refused.
"""

import math
import pickletools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdops.errors import XDError


@dataclass(frozen=True)
class Name:
    """What a pickle calls by a name; here no more than that name."""

    text: str


@dataclass
class Array:
    """A numpy array, whose content follows after its first mention."""

    value: np.ndarray | None = None


RECONSTRUCT, NDARRAY, DTYPE = Name("numpy.core.multiarray _reconstruct"), Name("numpy ndarray"), Name("numpy dtype")
BYTES = Name("the dtype u1")
NAMES = {name.text: name for name in (RECONSTRUCT, NDARRAY, DTYPE)}


class Refused(Exception):
    """An instruction that plain data has no need of."""


def read_pickled_dict(data: bytes, where: str) -> dict[Any, Any]:
    """The dictionary that the pickle describes; strings of Python 2 are bytes. `where` names the file in errors."""
    building = Building()
    try:
        for instruction, argument, _ in pickletools.genops(data):
            building.follow(instruction.name, argument)
        (result,) = building.stack
        if not isinstance(result, dict):
            raise Refused(f"a {type(result).__name__} in place of a dictionary")
    except Refused as refused:
        raise XDError(
            f"{where}, a pickle with {refused}",
            "a dictionary of numbers, strings, lists and arrays of bytes, as in the official files; nothing is ever unpickled",
            "the official archive, or the binary version",
        ) from None
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise XDError(
            f"{where}, which is no whole pickle ({error})",
            "the official file",
            "unpack the archive again; a cut-off file is the usual cause",
        ) from error
    return {key: value.value if isinstance(value, Array) else value for key, value in result.items()}


@dataclass
class Building:
    """The stack of values that the instructions build, and those they set aside to use again."""

    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def follow(self, name: str, argument: Any) -> None:
        match name:
            case "PROTO" | "STOP":
                pass
            case "MARK":
                self.marks.append(len(self.stack))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                self.stack.append(self.memo[argument])
            case "BININT" | "BININT1" | "BININT2":
                self.stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                self.stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "BINSTRING" | "SHORT_BINSTRING":
                self.stack.append(argument.encode("latin-1"))
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_TUPLE":
                self.stack.append({"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}[name]())
            case "TUPLE":
                self.stack.append(tuple(self.since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self.stack.append(tuple(self.last(int(name[-1]))))
            case "APPEND" | "APPENDS":
                self.extend(self.last(1) if name == "APPEND" else self.since_mark())
            case "SETITEM" | "SETITEMS":
                self.set_items(self.last(2) if name == "SETITEM" else self.since_mark())
            case "GLOBAL":
                if argument not in NAMES:
                    raise Refused(f"the name {argument!r}")
                self.stack.append(NAMES[argument])
            case "REDUCE":
                self.stack.append(self.made_by(*self.last(2)))
            case "BUILD":
                self.fill(*self.last(1))
            case _:
                raise Refused(f"the instruction {name}")

    def since_mark(self) -> list[Any]:
        return self.last(len(self.stack) - self.marks.pop())

    def last(self, count: int) -> list[Any]:
        """Take the last values off the stack."""
        if not 0 <= count <= len(self.stack):
            raise IndexError("an instruction without its values")
        first = len(self.stack) - count
        values = self.stack[first:]
        del self.stack[first:]
        return values

    def extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise Refused("items appended to something else than a list")
        self.stack[-1].extend(values)

    def set_items(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise Refused("items set in something else than a dictionary")
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def made_by(self, called: Any, arguments: Any) -> Array | Name:
        """What a call stands for: an array still without content, or its dtype."""
        if called is RECONSTRUCT and isinstance(arguments, tuple) and arguments and arguments[0] is NDARRAY:
            return Array()
        if called is DTYPE and isinstance(arguments, tuple) and arguments[:1] == (b"u1",):
            return BYTES
        raise Refused(
            f"a call of {called.text if isinstance(called, Name) else type(called).__name__} that makes no array of bytes"
        )

    def fill(self, state: Any) -> None:
        """Give the array on top of the stack its content."""
        target = self.stack[-1]
        if target is BYTES:
            return  # byte order and the like, of which single bytes have none
        if not isinstance(target, Array):
            raise Refused("state for something else than an array")
        _, shape, dtype, by_columns, content = state
        if dtype is not BYTES or not isinstance(content, bytes) or not all(type(n) is int and n >= 0 for n in shape):
            raise Refused("an array of something else than bytes")
        if math.prod(shape) != len(content):
            raise ValueError(f"an array of shape {shape} with {len(content):,} bytes")
        target.value = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")
