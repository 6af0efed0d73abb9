"""How much memory an array may take: known before it is made room for."""

import os
from math import prod
from pathlib import Path

from xdops.errors import XDError

#: An array is scaled, split and cast on its way into training: it is there several times at once.
COPIES = 3


#: Bytes that a value takes at least, whatever it is in a file: what is trained on has 32 bits.
LEAST = 4

#: Limit and use of a container's memory, in both ways that Linux tells them.
_CONTAINER = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory() -> int:
    """Bytes that programs may still use, as far as the system and the container that it may be in say."""
    return max(0, min(_free_on_machine(), _free_in_container()))


def _free_in_container() -> int:
    for limit, used in _CONTAINER:
        try:
            return int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return 1 << 62


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def room_for_arrays() -> int:
    return free_memory() // COPIES


def check_room_for(what: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse an array that does not fit into memory, itemsize: bytes of each value, where it is used."""
    size, room = prod(shape) * itemsize, room_for_arrays()
    if size > room:
        raise XDError(
            f"{what} of shape {shape}, {size / 1e9:,.1f} GB",
            f"at most {room / 1e9:,.1f} GB, a third of the memory that is free",
            "fewer examples, or a coarser grid",
        )
