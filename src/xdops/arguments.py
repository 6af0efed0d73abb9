"""Arguments of public functions are what their signatures say; anything else is refused before any work is done.

    @checked
    def show(op: nn.Module, input_size: int | Sequence[int] | None = None) -> Drawing: ...

show(op, 3.5) is then answered by an XDError: input_size=3.5 is neither a whole number nor a sequence of whole numbers nor None.
Whole numbers of numpy are taken as Python's own, paths may be texts, and lists stand for tuples; True is no number.
"""

import errno
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from xdops.errors import XDError

P = ParamSpec("P")
R = TypeVar("R")
#: Longer values are named by their type.
_LONGEST = 60
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    type(None): "None",
    Path: "a path",
    os.PathLike: "a path",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments that do not fit its annotations."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        hints, bound = _hints(function), signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for one in value if many else (value,):
                check(name, one, hints.get(name, Any), function.__qualname__)
            if isinstance(value, numbers.Integral):
                bound.arguments[name] = value if isinstance(value, bool) else int(value)
        return function(*bound.args, **bound.kwargs)

    return call


def check_fields(instance: Any) -> None:
    """The same for a dataclass, in its __post_init__."""
    made: Any = type(instance)
    for field in fields(instance):
        check(field.name, getattr(instance, field.name), _hints(made).get(field.name, Any), made.__qualname__)


@cache
def _hints(of: Any) -> dict[str, Any]:
    return typing.get_type_hints(of)


def check(name: str, value: Any, hint: Any, where: str) -> None:
    """Refuse a value that does not fit the annotation; where: the function that it was given to."""
    if not fits(value, hint):
        where = where.removesuffix(".__init__")
        example = f"{name}={get_args(hint)[0]!r}" if get_origin(hint) is Literal else f"help({where}) says what it takes"
        raise XDError(f"{name}={shown(value)} for {where}", described(hint), example)
    if isinstance(value, str | os.PathLike) and _takes_paths(hint):
        _check_path(name, value, where)


def _takes_paths(hint: Any) -> bool:
    either = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return any(one in (Path, os.PathLike) or get_origin(one) is os.PathLike for one in either)


def _check_path(name: str, path: str | os.PathLike[str], where: str) -> None:
    """Refuse what the system takes for no path at all, whether or not anything is there."""
    try:
        os.lstat(path)
    except ValueError as error:  # a null character, or half of one
        raise XDError(f"{name}={shown(path)} for {where} ({error})", "a path", "another name") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            length = len(os.fspath(path))
            raise XDError(
                f"{name} of {length:,} characters for {where}", "a path short enough for this system", "a shorter one"
            ) from error


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as that can be told without using it up."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is tuple:
        return isinstance(value, list | tuple) and _fits_tuple(value, inner)
    if origin is not None and origin is not Callable and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if origin is not None and origin is not Callable and issubclass(origin, Iterable):
        return _fits_items(value, origin, inner[0] if inner else Any)
    return _fits_class(value, hint if origin is None else origin)


def _fits_tuple(value: Sequence[Any], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(fits(item, inner[0]) for item in value)
    return len(value) == len(inner) and all(fits(item, one) for item, one in zip(value, inner, strict=True))


def _fits_items(value: Any, origin: type, inner: Any) -> bool:
    if isinstance(value, str | bytes) or not isinstance(value, origin):
        return False
    return not isinstance(value, Collection) or all(fits(item, inner) for item in value)  # generators can be read only once


def _fits_class(value: Any, hint: Any) -> bool:
    if hint is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if hint in (int, float):
        return isinstance(value, numbers.Integral if hint is int else numbers.Real) and not isinstance(value, bool)
    if hint in (Path, os.PathLike):
        return isinstance(value, str | os.PathLike)
    if hint is Callable:
        return callable(value)
    try:
        return hint is Any or not isinstance(hint, type) or isinstance(value, hint)
    except TypeError:  # a protocol, of which only the names are known at run time
        return all(hasattr(value, name) for name in vars(hint) if not name.startswith("_") or name in ("__call__", "__len__"))


def described(hint: Any) -> str:
    """An annotation in words: a whole number, a sequence of whole numbers or None."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either([described(one) for one in inner])
    if origin is Literal:
        return _either([repr(one) for one in inner])
    if origin is tuple and Ellipsis not in inner:
        words = list(dict.fromkeys(described(one) for one in inner))
        return f"{len(inner)} values, each {words[0]}" if len(words) == 1 else f"a tuple of {', '.join(words)}"
    if origin is not None and origin is not Callable and issubclass(origin, Mapping):
        return f"a mapping from {described(inner[0])} to {described(inner[1])}"
    if origin is not None and origin is not Callable and issubclass(origin, Iterable) and inner:
        return f"a sequence, each item {described(inner[0])}"
    named = hint if origin is None else origin
    if named is Callable:
        return "a function"
    return _WORDS.get(named) or ("anything" if named is Any else f"a {getattr(named, '__name__', named)}")


def _either(words: Sequence[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: Any) -> str:
    """A value in a line: itself if that is short, its type and shape otherwise."""
    shape = getattr(value, "shape", None)
    if shape is not None and not isinstance(value, numbers.Number):
        return f"(a {type(value).__name__} of shape {tuple(shape)})" if isinstance(shape, tuple) else f"(a {type(value).__name__})"
    if value is None or isinstance(value, numbers.Number | str | bytes | list | tuple | dict | range | os.PathLike):
        text = repr(value)
        if len(text) <= _LONGEST and "\n" not in text:
            return text
    return f"(a {type(value).__name__})"
