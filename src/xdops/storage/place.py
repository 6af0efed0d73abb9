"""Where a command keeps its runs: a folder that all machines see, or a URL, worked on in a copy on every machine."""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xdops.errors import XDError
from xdops.storage.files import DiskFull, check_room, probing, this_host
from xdops.storage.lease import leased
from xdops.storage.lock import lock
from xdops.storage.mirror import Mirror


@dataclass(frozen=True)
class Place:
    """folder: where the work is done; mirror: the URL that it is a copy of, if any."""

    folder: Path
    mirror: Mirror | None = None

    @classmethod
    def at_url(cls, url: str) -> "Place":
        mirror = Mirror.of(url)
        return cls(mirror.folder, mirror)

    def __str__(self) -> str:
        return str(self.folder if self.mirror is None else self.mirror)

    def below(self, name: str) -> "Place":
        return Place(self.folder / name, None if self.mirror is None else self.mirror.below(name))

    @contextmanager
    def opened(self, mark: str | None = None) -> Iterator[None]:
        """Nothing to do for a folder. A URL is held, copied here, and what has changed in the copy is brought back in the end.

        mark: a file that must be there unless nothing is: somebody else's files are not copied.
        """
        if self.mirror is None:
            yield
            return
        with naming(self.mirror):
            check_mark(self.mirror, mark)
            check_room(self.folder, 1)
            with self.probing():
                pass
            with leased(self.mirror), lock(self.folder):
                self.mirror.pull()
                try:
                    yield
                finally:
                    self.mirror.push()

    @contextmanager
    def probing(self) -> Iterator[str]:
        """A file there for others to look for; it is gone afterwards. Refuses a place that cannot be written to."""
        if self.mirror is None:
            with probing(self.folder) as probe:
                yield str(probe)
            return
        store, name = self.mirror.store(), f".probe-{this_host()}-{os.getpid()}-{threading.get_ident()}"
        data = uuid.uuid4().hex.encode()
        store.write(name, data)
        try:
            if store.read(name) != data:
                raise XDError(f"{self}, which does not give back what is written to it", "a store that does", "another URL")
            yield name
        finally:
            store.remove(name)

    def blind_for(self, probe: str) -> str | None:
        """Why this machine does not see the probe; None if it does."""
        if self.mirror is None:
            return None if os.path.exists(probe) else "no such file"
        try:
            check_room(self.folder, 1)
            return "no such file" if self.mirror.store().read(probe) is None else None
        except XDError as error:
            return str(error)


def check_mark(mirror: Mirror, mark: str | None) -> None:
    names = [name for name in mirror.store().names() if not name.startswith(".")]
    if mark is not None and names and mark not in names:
        raise XDError(f"{mirror}, which holds other files", f"nothing there, or {mark} of an earlier command", "another URL")


@contextmanager
def naming(mirror: Mirror) -> Iterator[None]:
    """Errors name the URL instead of the copy, but for those of the disk that the copy is on."""
    try:
        yield
    except DiskFull:
        raise
    except XDError as error:
        said = [text.replace(str(mirror.folder), str(mirror)) for text in (error.given, error.expected, error.hint)]
        raise XDError(*said) from error
