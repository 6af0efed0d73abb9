"""--json: where a command writes what it measured."""

from pathlib import Path

from xdops.errors import XDError
from xdops.storage.documents import read_json
from xdops.storage.files import check_target


def check_json(target: Path | None, command: str) -> None:
    """Refuse, before anything is measured, a place that cannot be written to, or a file that no such command wrote."""
    if target is None:
        return
    if not target.absolute().parent.is_dir():
        raise XDError(f"--json {target}", f"a file in a folder that exists; {target.parent} does not", "mkdir it first")
    check_target(target, 1 << 20)
    if target.exists() and "machine" not in read_json(target, f"a file that `{command}` wrote, or none", "another name"):
        raise XDError(f"--json {target}, which exists and holds something else", "a new file", "another name, or remove it")
