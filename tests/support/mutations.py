"""Ways to damage bytes, JSON and whole folders, all drawn from one generator."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

#: What stands in the place of a JSON entry.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, float("nan"), float("inf"), "", "x", "../../evil", "[bold]", "\x1b[31m\n", [], {},
    [[]], {"a": 1},
)  # fmt: skip


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip, overwrite, double or blank a piece."""
    damaged = bytearray(data)
    if not data:
        return rng.bytes(8)
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    match rng.integers(5):
        case 0:
            del damaged[at:]
        case 1:
            for place in rng.integers(len(data), size=8):
                damaged[place] ^= 1 << int(rng.integers(8))
        case 2:
            damaged[at : at + length] = rng.bytes(length)
        case 3:
            damaged[at:at] = damaged[at : at + length]
        case 4:
            damaged[at : at + length] = b"\xff" * length
    return bytes(damaged)


def mutate_json(data: bytes, rng: np.random.Generator) -> bytes:
    """An entry anywhere in the document is gone, has another value or stands twice."""
    document = json.loads(data)
    inner = document
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            return mutate(data, rng)
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
            inner = inner[key]
            continue
        match rng.integers(4):
            case 0:
                del inner[key]
            case 1 if isinstance(inner, list):
                inner.append(inner[key])
            case _:
                inner[key] = VALUES[int(rng.integers(len(VALUES)))]
        return json.dumps(document, indent=1).encode()


def damage(folder: Path, files: list[Path], rng: np.random.Generator) -> str:
    """Damage one of the files, given relative to the folder; says how."""
    chosen = files[int(rng.integers(len(files)))]
    path, data = folder / chosen, (folder / chosen).read_bytes()
    how = int(rng.integers(12))
    if how < 5 and path.suffix == ".json":
        path.write_bytes(mutate_json(data, rng))
        return f"an entry of {chosen} changed"
    path.unlink()
    match how:
        case 7:
            return f"{chosen} removed"
        case 8:
            path.mkdir()
            return f"{chosen} a folder"
        case 9:
            os.mkfifo(path) if rng.random() < 0.5 else path.symlink_to(path.name)
            return f"{chosen} a pipe or a loop"
        case 10 | 11:
            alike = [other for other in files if other.suffix == chosen.suffix and other != chosen] or [chosen]
            other = alike[int(rng.integers(len(alike)))]
            shutil.copy(folder / other, path) if other != chosen else path.write_bytes(b"")
            return f"{other} in the place of {chosen}"
    path.write_bytes(mutate(data, rng))
    return f"bytes of {chosen} changed"
