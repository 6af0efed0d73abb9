"""Where a user's machine keeps what was measured or compiled once."""

import os
from pathlib import Path

#: Names another folder than the user's own.
VARIABLE = "XDOPS_CACHE"


def cache_folder() -> Path:
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xdops"
