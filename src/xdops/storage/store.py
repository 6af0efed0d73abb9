"""A folder at a URL that fsspec can open: s3://, gs://, az://, sftp://, memory:// and many more."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xdops.errors import XDError, first_line

#: Names with such parts would leave the folder that they are copied to.
_ODD = {"", ".", ".."}


class Vanished(Exception):
    """A file that was listed is gone: somebody is writing."""


class Store:
    """Names are relative to the URL, with slashes. Whatever the file system raises is told as one XDError that names the URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, root = open_url(url)
        self._root = root.rstrip("/")

    def find(self, at: str) -> dict[str, str]:
        """Every file in a folder and below, with a digest of what the store knows of it, which changes when the file does."""
        with self._told("be read"):
            self._files.invalidate_cache()
            try:
                found = self._files.find(self._path(at), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return {}
            return self._facts(at, found.values())

    def look(self, at: str) -> dict[str, str]:
        """The same of the folder alone."""
        with self._told("be read"):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._path(at), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return {}
            return self._facts(at, found)

    def names(self) -> list[str]:
        """What is at the URL itself, folders included."""
        with self._told("be read"):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._path(""), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted({name.rstrip("/").rpartition("/")[2] for name in map(self._relative, found) if name})

    def get(self, name: str, path: Path) -> None:
        with self._told("be read"):
            try:
                self._files.get_file(self._path(name), str(path))
            except FileNotFoundError as error:
                raise Vanished(name) from error

    def put(self, path: Path, name: str) -> None:
        """Tensors go to their place at once: their description, which comes later, holds their digest. All else is moved there
        when it is whole, for file systems that show what is half written."""
        with self._told("be written to"):
            folder, _, last = name.rpartition("/")
            direct = path.suffix == ".safetensors"
            target = self._path(name) if direct else self._path(f"{folder}/.{last}.tmp" if folder else f".{last}.tmp")
            self._in_folder(target, lambda: self._files.put_file(str(path), target))
            if not direct:
                self._files.mv(target, self._path(name))

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it is not there."""
        with self._told("be read"):
            self._files.invalidate_cache()
            try:
                return self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        with self._told("be written to"):
            self._in_folder(self._path(name), lambda: self._files.pipe_file(self._path(name), data))

    def remove(self, name: str) -> None:
        with self._told("be written to"), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return "/".join(part for part in (self._root, name) if part)

    def _relative(self, path: str) -> str:
        """Empty for what is not below the URL. Some file systems begin their paths with a slash, some do not."""
        path, root = path.strip("/"), self._root.strip("/")
        return path if not root else path[len(root) + 1 :] if path.startswith(f"{root}/") else ""

    def _facts(self, at: str, found: Any) -> dict[str, str]:
        files = {self._relative(info["name"]): info for info in found if info.get("type", "file") == "file"}
        inside = {name: info for name, info in files.items() if name and (not at or name.startswith(f"{at}/"))}
        for name in inside:
            if _ODD & set(name.split("/")) or "\\" in name or "\0" in name:
                raise XDError(f"{self.url}, which holds {name!r}", "files that xdops wrote", "another URL")
        return {name: _digest(info) for name, info in inside.items()}

    def _in_folder(self, path: str, write: Any) -> None:
        """Write, after making the folders above if it needs them; but for the first, which is a bucket in most stores."""
        try:
            write()
        except FileNotFoundError:
            self._make_folder(path.rpartition("/")[0])
            write()

    def _make_folder(self, folder: str) -> None:
        if folder.strip("/").count("/") and not self._files.exists(folder):
            self._make_folder(folder.rpartition("/")[0])
            with suppress(FileExistsError):
                self._files.mkdir(folder, create_parents=False)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (XDError, Vanished):
            raise
        except Exception as error:  # every store has its own
            raise XDError(
                f"{self.url}, which cannot {what} ({first_line(error)})",
                "a URL that can, and whatever rights it asks for",
                "another URL, or the store's own tools to see what is wrong",
            ) from error


def _digest(info: dict[str, Any]) -> str:
    facts = sorted((key, str(value)) for key, value in info.items() if key != "name")
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def open_url(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise XDError(f"{url} without fsspec", "the package that opens URLs", "pip install fsspec") from error
    try:
        return url_to_fs(url)
    except ImportError as error:
        package = getattr(error.__cause__, "name", None) or getattr(error, "name", None) or "what fsspec asks for"
        given = f"{url}, for which a package is missing ({first_line(error)})"
        raise XDError(given, "that package", f"pip install {package}") from error
    except Exception as error:
        raise XDError(
            f"{url}, which fsspec does not open ({first_line(error)})",
            "a URL that it knows, such as s3://bucket/folder",
            "another URL, or a path",
        ) from error


def check_url(url: str) -> None:
    """Refuse a URL with a password: it would stand in every report."""
    if re.search(r"://[^/@]*:[^/@]*@", url):
        raise XDError("a URL with a password in it", "one without", "fsspec's configuration files, or its environment variables")
