"""The working copy of a folder at a URL.

Runs are locked and their files renamed into place, which object stores cannot do. So all work is done in an ordinary folder, and
`pull` and `push` carry over what has changed. What is at the URL counts: `pull` makes the copy equal to it, and forgets what was
never pushed. Files whose names begin with a dot (locks, files under way, our notes) stay where they are.

A file is taken to be unchanged while neither what the store knows of it nor the copy's size, time and inode differ from what was
noted when both were equal, in `.mirror.json` of its folder. Notes only save transfers: without them everything is copied again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xdops.errors import XDError
from xdops.storage.cache import cache_folder
from xdops.storage.documents import digest
from xdops.storage.files import make_folder, replacing, write_json
from xdops.storage.store import Store, Vanished, check_url

NOTES = ".mirror.json"
#: How often a folder is looked at again whose files change while they are copied.
_LOOKS = 5


@dataclass(frozen=True)
class Mirror:
    """What is at `at` below the URL, and its copy in `folder`, which need not exist yet."""

    url: str
    folder: Path
    at: str = ""

    @classmethod
    def of(cls, url: str, purpose: str = "runs") -> "Mirror":
        """With a copy in the user's cache. purpose: readers have a copy of their own, beside that of a command that writes."""
        check_url(url)
        return cls(url, (cache_folder() / "remote" / f"{purpose}-{digest(url.rstrip('/'))[:20]}").absolute())

    def __str__(self) -> str:
        return f"{self.url.rstrip('/')}/{self.at}" if self.at else self.url

    def below(self, name: str) -> "Mirror":
        return Mirror(self.url, self.folder / name, f"{self.at}/{name}" if self.at else name)

    def store(self) -> Store:
        """Opened anew every time: file systems do not survive a fork, and fsspec keeps what can be kept."""
        return Store(self.url)

    def pull(self, wanted: Callable[[str], bool] = lambda name: True) -> None:
        """Make the copy equal to what is at the URL, as far as names are wanted."""
        for _ in range(_LOOKS):
            try:
                return self._pull(wanted)
            except Vanished:
                continue
        raise XDError(f"{self}, whose files change while they are copied", "a URL that nobody writes to", "the same again, later")

    def _pull(self, wanted: Callable[[str], bool]) -> None:
        store, notes = self.store(), _Notes(self.folder)
        there = {name: facts for name, facts in self._named(store.find(self.at)) if shown(name) and wanted(name)}
        for name, facts in there.items():
            path = self.folder / name
            if notes.get(name) != (facts, stamp(path)):
                make_folder(path.parent)
                with replacing(path) as temporary:
                    store.get(self._there(name), temporary)
                notes.put(name, facts, stamp(path))
        for name in [name for name in files_of(self.folder) if wanted(name) and name not in there]:
            (self.folder / name).unlink(missing_ok=True)
        for name in [name for name in notes.names() if wanted(name) and name not in there]:
            notes.drop(name)
        notes.save()
        remove_empty(self.folder)

    def push(self) -> None:
        """Bring to the URL what has changed in the copy, in the order in which it was written, then remove what is gone from it."""
        notes, here = _Notes(self.folder), files_of(self.folder)
        self._push(notes, here, gone=[name for name in notes.names() if name not in set(here)])

    def push_files(self) -> None:
        """The same of the folder's own files, and nothing is removed: others may be at work below it."""
        self._push(_Notes(self.folder), [name for name in own_files(self.folder) if shown(name)], gone=[])

    def _push(self, notes: "_Notes", names: Sequence[str], gone: Sequence[str]) -> None:
        stamps = {name: stamp(self.folder / name) for name in names}
        changed = [name for name, now in stamps.items() if notes.get(name)[1] != now]
        if not changed and not gone:
            return
        store = self.store()
        for name in sorted(changed, key=self._written):
            store.put(self.folder / name, self._there(name))
        for name in gone:
            store.remove(self._there(name))
            notes.drop(name)
        folders = {name.rpartition("/")[0] for name in changed}
        facts = {name: fact for folder in folders for name, fact in self._named(store.look(self._there(folder)))}
        for name in changed:
            notes.put(name, facts.get(name, ""), stamps[name])
        notes.save()

    def _written(self, name: str) -> tuple[int, bool]:
        """Tensors before their description, also where the clock is too coarse to tell."""
        return (self.folder / name).stat().st_mtime_ns, not name.endswith(".safetensors")

    def _there(self, name: str) -> str:
        return "/".join(part for part in (self.at, name) if part)

    def _named(self, found: dict[str, str]) -> Iterator[tuple[str, str]]:
        """With names relative to the copy."""
        for name, facts in found.items():
            yield name[len(self.at) + 1 :] if self.at else name, facts


def shown(name: str) -> bool:
    """Whether a file is mirrored."""
    return not any(part.startswith(".") for part in name.split("/"))


def files_of(folder: Path) -> list[str]:
    """The names of all files that are mirrored."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in paths if shown(name))


def own_files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def stamp(path: Path) -> str:
    """What differs once a file was replaced or added to; empty if there is none."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


def remove_empty(folder: Path) -> None:
    """All folders below this one that hold nothing."""
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):  # it holds something
            path.rmdir()


class _Notes:
    """By name, what the store knew of a file and its stamp here when both were equal; a file in every folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[str, str]] = {}
        self._changed: set[str] = set()
        for path in folder.rglob(NOTES):
            above = path.parent.relative_to(folder).as_posix()
            self._known |= {last if above == "." else f"{above}/{last}": known for last, known in _read(path).items()}

    def names(self) -> list[str]:
        return list(self._known)

    def get(self, name: str) -> tuple[str, str]:
        return self._known.get(name, ("", ""))

    def put(self, name: str, facts: str, stamp: str) -> None:
        self._known[name] = (facts, stamp)
        self._changed.add(name.rpartition("/")[0])

    def drop(self, name: str) -> None:
        self._known.pop(name, None)
        self._changed.add(name.rpartition("/")[0])

    def save(self) -> None:
        for folder in self._changed:
            path = self._folder / folder / NOTES
            inside = {name.rpartition("/")[2]: known for name, known in self._known.items() if name.rpartition("/")[0] == folder}
            if inside:
                write_json(path, inside)
            else:
                path.unlink(missing_ok=True)
        self._changed.clear()


def _read(path: Path) -> dict[str, tuple[str, str]]:
    """Nothing, if the notes are damaged: what they are about is then copied again."""
    try:
        return {name: (str(facts), str(known)) for name, (facts, known) in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
