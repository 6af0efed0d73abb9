"""JSON documents: read with every way of being broken turned into one line, and sealed so that edits and mix-ups are noticed.

A sealed document carries an entry "seal": what it is (kind), which run it belongs to, which version wrote it, and a digest of all
of this and of the content. The digest is no signature: it tells accidents and edits, not somebody who seals a lie.
"""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from xdops import __version__
from xdops.errors import XDError
from xdops.storage.files import write_json

#: Of sealed documents. 1 had no seals.
FORMAT = 2
SEAL = "seal"
#: No document of ours comes near this many bytes.
_LARGEST = 1 << 28

Json = dict[str, Any]
T = TypeVar("T")


def read_json(path: Path, expected: str = "a file that xdops wrote", hint: str = "write it again") -> Json:
    """The JSON object in the file; anything else is refused by name."""
    return read_object(path, json.loads, expected, hint)


def read_object(path: Path, parse: Callable[[str], Any], expected: str, hint: str) -> Json:
    """What `parse` makes of the text in a regular file, if that is an object, names with values; refused otherwise."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > _LARGEST:
            raise ValueError(f"it has {status.st_size:,} bytes")
        value = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise XDError(f"{path}, which cannot be read ({_why(error)})", expected, hint) from error
    if not isinstance(value, dict):
        raise XDError(f"{path}, which holds a {type(value).__name__} instead of an object", expected, hint)
    return value


@contextmanager
def understood(path: Path, expected: str = "a file that xdops wrote", hint: str = "write it again") -> Iterator[None]:
    """While content of `path` is being made sense of: entries that are missing or of another kind are the file's fault."""
    try:
        yield
    except XDError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else _why(error)
        raise XDError(f"{path}, which makes no sense ({what})", expected, hint) from error


def make_sense(path: Path, value: Json, read: Callable[[Json], T], hint: str = "write it again") -> T:
    """read(value), with the file named where that fails, or where what it says is refused."""
    with understood(path, hint=hint):
        try:
            return read(value)
        except XDError as refused:
            raise ValueError(refused.given) from refused


def digest(value: Any) -> str:
    """Of JSON data, whatever the order of its entries."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sealed(kind: str, run: str, content: Json) -> Json:
    """The content with its seal. run: the digest of the identity of the run that it belongs to."""
    seal = {"kind": kind, "run": run, "format": FORMAT, "version": __version__}
    return {SEAL: seal | {"digest": digest([seal, json.loads(json.dumps(content))])}, **content}


def write_sealed(path: Path, kind: str, run: str, content: Json) -> None:
    write_json(path, sealed(kind, run, content))


def read_sealed(path: Path, kind: str, run: str | None = None, hint: str = "run it again, in a new folder") -> Json:
    """The content of a sealed document, without its seal; refused unless it verifies and belongs to the run, if one is given."""
    return opened(path, read_json(path, f"the {kind} of a run", hint), kind, run, hint)


def opened(path: Path, document: Json, kind: str, run: str | None, hint: str = "run it again, in a new folder") -> Json:
    """The content of a sealed document that was read from `path`."""
    content = {key: value for key, value in document.items() if key != SEAL}
    seal = document.get(SEAL)
    if not isinstance(seal, dict) or seal.get("format") != FORMAT:
        found = (
            f"by xdops {seal.get('version')}"
            if isinstance(seal, dict) and isinstance(seal.get("version"), str)
            else "by xdops 0.1 before files were sealed, or not by xdops"
        )
        raise XDError(f"{path}, which was written {found}", f"a file of this version, {__version__}, format {FORMAT}", hint)
    bare = {key: value for key, value in seal.items() if key != "digest"}
    with understood(path, hint=hint):
        if seal.get("digest") != digest([bare, content]):
            raise XDError(
                f"{path}, which does not verify: it was changed after it was written", f"the {kind} as xdops wrote it", hint
            )
    if seal.get("kind") != kind:
        raise XDError(f"{path}, which is the {seal.get('kind')} of a run", f"its {kind}", hint)
    if run is not None and seal.get("run") != run:
        raise XDError(f"{path}, which belongs to another run", f"the {kind} of this one", hint)
    return content


DIGEST = "digest"


def with_digest(content: Json, about: str = "") -> Json:
    """The content of a document that belongs to no run, with a digest of it and of what it is about."""
    return {**content, DIGEST: digest([about, json.loads(json.dumps(content))])}


def without_digest(path: Path, document: Json, about: str = "", hint: str = "write it again") -> Json:
    """Its content, refused unless it verifies. What was written before there were digests has none, and is taken as it is."""
    content = {key: value for key, value in document.items() if key != DIGEST}
    with understood(path, hint=hint):
        if DIGEST in document and document[DIGEST] != digest([about, content]):
            raise XDError(f"{path}, which does not verify: it was changed after it was written", "a file as xdops wrote it", hint)
    return content


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Each differing entry of two pieces of JSON data, as "settings.weights.lr is 0.1 there, 0.01 here"."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = [*there, *(k for k in here if k not in there)]
        return [d for k in keys for d in differences(there.get(k), here.get(k), f"{name}.{k}" if name else k)]
    return [] if there == here else [f"{name or 'it'} is {_short(there)} there, {_short(here)} here"]


def named_differences(there: Any, here: Any, most: int = 6) -> str:
    """The first of them in one line; empty if there are none."""
    found = differences(there, here)
    return "; ".join(found[:most]) + (f"; and {len(found) - most} more" if len(found) > most else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _why(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"{error}" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
