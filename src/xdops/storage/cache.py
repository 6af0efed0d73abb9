"""Where a user's machine keeps what was measured or compiled once."""

import os
import tempfile
from pathlib import Path

#: Names another folder than the user's own.
VARIABLE = "XDOPS_CACHE"


def cache_folder() -> Path:
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "xdops"
    try:
        return Path.home() / ".cache" / "xdops"
    except RuntimeError:  # a user without a home, as in many containers
        return Path(tempfile.gettempdir()) / f"xdops-{os.getuid()}"
