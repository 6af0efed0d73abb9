"""What a user names as the folder of runs: a path, or a URL that fsspec knows."""

import re
from pathlib import Path

from xdops.errors import XDError
from xdops.search.distributed import under_torchrun
from xdops.storage.place import Place

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+"
_FILE = r"^(file|local):(//)?(?!:)"


def find_place(out: str, flag: str = "--out") -> Place:
    """Refuses names that are no text, which TensorBoard cannot write to."""
    try:
        out.encode()
    except UnicodeEncodeError as error:
        raise XDError(f"{flag} {out}, which is no text in UTF-8", "a name that is", f"{flag} runs/mine") from error
    if not is_url(out):
        return Place(path_of(out, flag))
    if re.match(f"{_SCHEME}:/(?!/)", out):
        raise XDError(f"{flag} {out}, with one slash", "a URL with two, or a path", f"{flag} {out.replace(':/', '://', 1)}")
    return Place.at_url(out)


def is_url(out: str) -> bool:
    """s3://bucket/runs, or several in a chain, joined by `::`. file:///home/me is a path."""
    return ("://" in out or re.match(rf"{_SCHEME}:(/|:)", out) is not None) and not re.match(_FILE, out)


def path_of(out: str, flag: str) -> Path:
    path = re.sub(_FILE, "", out)
    if out and not path:
        raise XDError(f"{flag} {out}", "a path after it", f"{flag} runs/mine")
    return Path(path)


def check_shared_memory(place: Place, processes: int) -> None:
    """Refuse a URL that only this process sees where others are to write to it, and URLs under torchrun."""
    if place.mirror is None:
        return
    if under_torchrun():
        raise XDError(f"--out {place} under torchrun", "a folder that all machines share", "--out on such a folder, or --ray")
    if processes > 1 and re.match(r"(.*::)?memory:", place.mirror.url):
        raise XDError(f"--out {place} for {processes} processes", "a URL that all of them see", "a folder, or one process")
