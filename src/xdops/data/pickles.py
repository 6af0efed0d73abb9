"""Files that are pickles by their makers' choice (CIFAR-10's batches, PDNET's proteins), read without running what they say.

A pickle is a program that may call anything by its name. `PlainUnpickler` knows the names by which numbers, strings, containers and
numpy arrays are written, and puts a function of this file in the place of each; any other name is refused before it is looked up.
Before that, `check_instructions` looks through the whole of it. Strings of Python 2 are read as latin-1, as numpy wrote them.
"""

import io
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from xdops.data.pickle_program import RefusedPickle, check_instructions
from xdops.errors import XDError
from xdops.storage.npy import read_header

#: Booleans, integers, floating-point and complex numbers, strings of bytes and of letters, objects. No records, no dates.
DTYPES = re.compile(r"b1|[iu][1248]|f(2|4|8|16)|c(8|16|32)|[SU][1-9][0-9]{0,8}|O8?")

#: Modules by the names that they had in Python 2 and numpy 1.
MODULES = {
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}

DEEPEST = 100  # containers in containers
LEAVES = (int, float, complex, bool, str, bytes, bytearray, type(None))


def read_pickle(path: Path) -> Any:
    """The plain data in a pickled file."""
    return unpickled(_content(path).read(), str(path))


def read_object_npy(path: Path) -> np.ndarray:
    """An array of objects as `numpy.save` writes it: a header, then the pickled array."""
    file = _content(path)
    try:
        shape, dtype = read_header(file)
        payload = file.read()
    except ValueError as error:
        raise XDError(
            f"{path}, which is not a .npy file ({error!s:.100})",
            "an array of objects, written by numpy.save",
            "copy or download it again; a cut-off file is the usual cause",
        ) from error
    if dtype != np.dtype(object):
        raise XDError(f"{path}, an array of {dtype}", "an array of objects", f"numpy.load({str(path)!r})")
    array = unpickled(payload, str(path))
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        raise XDError(
            f"{path}, whose content is not the array that its header announces",
            f"an array of objects of shape {shape}",
            "copy or download it again",
        )
    return array


def _content(path: Path) -> io.BytesIO:
    try:
        return io.BytesIO(path.read_bytes())
    except OSError as error:
        raise XDError(f"{path}, which cannot be read ({error.strerror})", "a file", "check the path and its permissions") from error


def unpickled(data: bytes, where: str) -> Any:
    """The numbers, strings, containers and arrays that the pickle describes; `where` names the file in errors."""
    try:
        check_instructions(data)
        unpickler = PlainUnpickler(data)
        return unpickler.plain(unpickler.load(), ())
    except RefusedPickle as refused:
        raise XDError(
            f"{where}, a pickle with {refused}",
            "numbers, strings, containers and numpy arrays of these; nothing else is looked up, imported or called",
            "the file from its official source; data of your own: numpy.savez",
        ) from None
    except Exception as error:  # a broken program can fail anywhere in the machine that runs it
        raise XDError(
            f"{where}, which is not a complete pickle ({type(error).__name__}: {error!s:.100})",
            "the file as it was written",
            "copy, download or unpack it again; a cut-off file is the usual cause",
        ) from error


class Named:
    """What stands for a name: it can be called as the pickle calls it, and not be changed by it."""

    __slots__ = ("function",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise RefusedPickle("state for a name")


class Dtype:
    """A dtype still without its byte order."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or not DTYPES.fullmatch(code):
            raise RefusedPickle(f"an array of dtype {code!r:.40}")
        self.value = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        _, order, shape, names, fields, *_ = state
        if (shape, names, fields) != (None, None, None) or order not in ("<", ">", "|", "="):
            raise RefusedPickle("an array of records")
        self.value = self.value.newbyteorder(order)


class Array:
    """An array whose content follows after its first mention, and is made an array at the end."""

    __slots__ = ("axes", "content", "dtype", "order", "shape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.content: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, content = state
        self.fill(content, dtype, shape, "F" if by_columns else "C")

    def fill(self, content: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> "Array":
        if not isinstance(dtype, Dtype) or not isinstance(shape, tuple):
            raise RefusedPickle("an array without a dtype or a shape")
        if len(shape) > 64 or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
            raise ValueError("an array with more dimensions or larger ones than numpy's")
        of_objects = dtype.value == np.dtype(object)
        if not isinstance(content, list if of_objects else (bytes, bytearray, str)):  # a string of Python 2 holds bytes
            raise RefusedPickle(f"an array made from a {type(content).__name__}")
        if math.prod(shape) * (1 if of_objects else dtype.value.itemsize) != len(content):
            raise ValueError(f"an array of shape {shape} with {len(content):,} bytes or objects")
        self.content, self.dtype, self.shape, self.order, self.axes = content, dtype.value, shape, order, axes
        return self


class PlainUnpickler(pickle.Unpickler):
    """Builds plain data from instructions that `check_instructions` has let through."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1")
        self.room = 2 * len(data)  # bytes: every array is in the file once, and in old protocols a string before
        self.made: dict[int, Any] = {}  # what became of a container or an array, by its identity
        functions: dict[str, Callable[..., Any]] = {
            "numpy.ndarray": self._not_called,
            "numpy.dtype": Dtype,
            "numpy._core.multiarray._reconstruct": self._reconstruct,
            "numpy._core.multiarray.scalar": self._scalar,
            "numpy._core.numeric._frombuffer": self._frombuffer,
            "_codecs.encode": self._encode,
            "builtins.complex": self._complex,
            "builtins.bytes": self._no_bytes,
            "builtins.set": lambda members=(): set(self._members(members)),
            "builtins.frozenset": lambda members=(): frozenset(self._members(members)),
        }
        self.names = {name: Named(function) for name, function in functions.items()}

    def find_class(self, module: str, name: str, /) -> Named:
        known = f"{MODULES.get(module, module)}.{name}"
        if known not in self.names:
            raise RefusedPickle(f"the name {f'{module}.{name}'!r:.80}")
        return self.names[known]

    def _reconstruct(self, kind: Any, shape: Any, code: Any) -> Array:
        if kind is not self.names["numpy.ndarray"]:
            raise RefusedPickle("an array of another class than numpy's")
        return Array()

    def _frombuffer(self, content: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Array:
        return Array().fill(content, dtype, shape, order, axes)

    def _scalar(self, dtype: Any, content: Any) -> Any:
        array = Array().fill(content, dtype, (), "C")
        if array.dtype == np.dtype(object):
            raise RefusedPickle("a scalar that is an object")
        return self._array(array)[()]

    def _encode(self, text: Any, encoding: Any = "latin1") -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise RefusedPickle("an encoding other than latin-1")
        self._use(len(text))
        return text.encode("latin-1")

    def _complex(self, real: Any, imaginary: Any) -> complex:
        return complex(float(real), float(imaginary))

    def _no_bytes(self, *arguments: Any) -> bytes:
        if arguments:
            raise RefusedPickle("bytes made from something else")
        return b""

    def _not_called(self, *_: Any) -> NoReturn:
        raise RefusedPickle("a call of numpy.ndarray")

    def _members(self, members: Any) -> list[Any] | tuple[Any, ...]:
        if not isinstance(members, list | tuple) or any(isinstance(member, tuple) for member in members):
            raise RefusedPickle("a set of something other than numbers and strings")
        self._use(len(members))
        return members

    def _use(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise RefusedPickle("instructions that multiply its data")

    def _array(self, given: Array, inside: tuple[int, ...] = ()) -> np.ndarray:
        if given.content is None:
            raise RefusedPickle("an array without content")
        self._use(len(given.content))
        if given.dtype == np.dtype(object):
            array = np.empty(len(given.content), object)
            for i, value in enumerate(given.content):
                array[i] = self.plain(value, inside)
            return array.reshape(given.shape)  # objects are listed row by row in any case
        content = given.content.encode("latin-1") if isinstance(given.content, str) else given.content
        array = np.frombuffer(content, given.dtype).astype(given.dtype.newbyteorder("="))  # a copy, in this machine's byte order
        if given.order == "K":
            return array.reshape(given.shape).transpose(given.axes)
        return array.reshape(given.shape, order=given.order)

    def plain(self, value: Any, inside: tuple[int, ...]) -> Any:
        """The value with its arrays made; `inside` are the identities of the containers around it."""
        if type(value) in LEAVES or isinstance(value, np.generic | set | frozenset):
            return value
        if not isinstance(value, Array | dict | list | tuple):
            raise RefusedPickle("a name in place of a value")
        if id(value) in inside or len(inside) == DEEPEST:
            raise RefusedPickle(f"a container inside itself, or more than {DEEPEST} containers in each other")
        if id(value) not in self.made:
            inner = (*inside, id(value))
            if isinstance(value, Array):
                made: Any = self._array(value, inner)
            elif isinstance(value, dict):
                made = {key: self.plain(item, inner) for key, item in value.items()}
            else:
                made = type(value)(self.plain(item, inner) for item in value)
            self.made[id(value)] = (made, value)  # the value too: an identity lasts as long as its object
        return self.made[id(value)][0]
