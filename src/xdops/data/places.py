"""Where the user keeps official data sets: a folder that is given, or named by the environment; nothing is downloaded."""

import os
from pathlib import Path

from xdops.errors import XDError


def data_folder(data_dir: str | Path | None, what: str, source: str) -> Path:
    """The folder where the user keeps data. what, source: the data set that is wanted, and where it is to be had."""
    given = data_dir or os.environ.get("XDOPS_DATA")
    if not given:
        raise XDError(
            "no data folder: neither data_dir nor the environment variable XDOPS_DATA is set",
            f"the folder that holds {what}",
            f"export XDOPS_DATA=/where/it/is; the data are at {source}",
        )
    try:
        root = Path(given).expanduser()
    except RuntimeError as error:  # the home of a user whom nobody knows
        raise XDError(f"data folder {given} ({error})", f"the folder that holds {what}", "its whole path") from error
    if not root.is_dir():
        raise XDError(f"data folder {root}, which does not exist", f"a folder that holds {what}", f"the data are at {source}")
    return root


def find_file(data_dir: str | Path | None, folder: str, names: tuple[str, ...], what: str, source: str) -> Path:
    """The first of these files in the data folder, or in its own folder there."""
    root = data_folder(data_dir, what, source)
    for path in (place / name for name in names for place in (root / folder, root)):
        if path.is_file():
            return path
    raise XDError(
        f"no {' or '.join(names)} in {root / folder} or {root}",
        f"the files of {what}",
        f"download them from {source} into that folder, or say where they are with --data-dir or XDOPS_DATA",
    )
