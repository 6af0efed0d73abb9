"""Where the user keeps data sets that are not made here."""

import os
from pathlib import Path

from xdops.errors import XDError


def data_folder(data_dir: str | Path | None, what: str, source: str) -> Path:
    """data_dir, or else the environment's XDOPS_DATA. what: it is to hold; source: where that is published."""
    given = data_dir or os.environ.get("XDOPS_DATA")
    if not given:
        raise XDError(
            "no data folder: neither data_dir nor the environment variable XDOPS_DATA is set",
            f"the folder that holds {what}",
            f"export XDOPS_DATA=/where/it/is; the data are at {source}",
        )
    root = Path(given).expanduser()
    if not root.is_dir():
        raise XDError(f"data folder {root}, which does not exist", f"a folder that holds {what}", f"the data are at {source}")
    return root
