"""Checkpoints: tensors as safetensors, the rest as JSON that holds the tensors' sha256. Nothing is ever unpickled.

A checkpoint NAME is NAME.safetensors, written first, and NAME.json, written second, each in one step: with a JSON that verifies, it
is whole. The two newest generations of the running state are kept, each with the best weights it speaks of: whatever moment a run
is killed at, one of them verifies.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from xdops.errors import XDError
from xdops.search.packing import load_network
from xdops.storage.files import disk_error, write_file

_GENERATION = re.compile(r"last-(\d+)\.json")
_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a verified checkpoint holds."""

    path: Path  # of its JSON
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def save_checkpoint(folder: Path, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Path:
    """Write checkpoint `name` into `folder`; returns the path of its safetensors."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(folder, 0, error) from error
    # safetensors holds no complex128 and no memory that is shared or strided: complex tensors go as pairs, all as copies.
    complex_names = sorted(k for k, t in tensors.items() if t.is_complex())
    plain = {k: torch.view_as_real(t) if t.is_complex() else t for k, t in tensors.items()}
    data = safetensors.torch.save({k: t.detach().cpu().clone(memory_format=torch.contiguous_format) for k, t in plain.items()})
    description = {"format": 1, "sha256": hashlib.sha256(data).hexdigest(), "complex": complex_names, "facts": facts}
    description["digest"] = _digest(description)
    write_file(folder / f"{name}.safetensors", data)
    write_file(folder / f"{name}.json", json.dumps(description).encode())
    return folder / f"{name}.safetensors"


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint, given its .json or its .safetensors."""
    description_path, tensors_path = path.with_suffix(".json"), path.with_suffix(".safetensors")
    try:
        description = json.loads(description_path.read_bytes())
        data = tensors_path.read_bytes()
    except (OSError, ValueError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(description, dict) or description.pop("digest", None) != _digest(description):
        raise _broken(description_path, "its digest differs")
    if description.get("format") != 1:
        raise _broken(description_path, f"its format is {description.get('format')}, this version reads 1")
    if hashlib.sha256(data).hexdigest() != description["sha256"]:
        raise _broken(tensors_path, "its sha256 differs")
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise _broken(tensors_path, str(error)) from error
    for name in description["complex"]:
        tensors[name] = torch.view_as_complex(tensors[name])
    return Checkpoint(description_path, tensors, description["facts"])


def save_generation(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Save the running state as a new generation; older ones go once it is whole. facts["best"]: the epoch of the best weights."""
    numbers = _generations(folder)
    save_checkpoint(folder, f"last-{max(numbers, default=0) + 1:06d}", tensors, facts)
    kept = [*numbers[-(_KEPT - 1) :], max(numbers, default=0) + 1]
    best = {facts["best"]} | {_best_of(folder / f"last-{n:06d}.json") for n in kept[:-1]}
    keep = {f"last-{n:06d}" for n in kept} | {best_name(e) for e in best if e is not None}
    for path in [*folder.glob("last-*"), *folder.glob("best-*")]:
        if path.stem not in keep:
            path.unlink(missing_ok=True)
    for path in folder.glob(".*.tmp"):  # left by a run that was killed while writing
        path.unlink(missing_ok=True)


def newest(folder: Path) -> Checkpoint | None:
    """The newest generation that verifies; None if none was ever written."""
    numbers = _generations(folder)
    broken: XDError | None = None
    for number in reversed(numbers):
        try:
            return load_checkpoint(folder / f"last-{number:06d}.json")
        except XDError as error:
            broken = error
    if broken is not None:
        raise broken
    return None


def best_name(epoch: int) -> str:
    """Name of the checkpoint of the best weights, found after this many epochs."""
    return f"best-{epoch:06d}"


def load_weights(path: Path, network: nn.Module, which: Literal["best", "last"] = "best") -> dict[str, Any]:
    """Load a run's weights into `network`: its best on validation, or its last. Returns the checkpoint's facts.

    path: the run's folder, or one checkpoint file. The network must be built as it was for the run.
    """
    path = Path(path)
    if not path.exists():
        raise XDError(f"{path}, which does not exist", "the folder of a run, or a checkpoint in it", "the --out of a search")
    if path.is_dir():
        checkpoint = newest(path / "checkpoints")
        if checkpoint is None:
            raise XDError(f"{path}, which holds no checkpoint", "the folder of a run", "the --out of a search")
        if which == "best" and checkpoint.facts["best"] is not None:
            checkpoint = load_checkpoint(checkpoint.path.with_name(best_name(checkpoint.facts["best"]) + ".json"))
    else:
        checkpoint = load_checkpoint(path)
    load_network(network, checkpoint.tensors, checkpoint.facts["extra"])
    return checkpoint.facts


def _generations(folder: Path) -> list[int]:
    return sorted(int(m[1]) for path in folder.glob("last-*.json") if (m := _GENERATION.fullmatch(path.name)))


def _best_of(path: Path) -> int | None:
    try:
        return json.loads(path.read_bytes())["facts"]["best"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(description: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _broken(path: Path, why: str) -> XDError:
    return XDError(
        f"{path}, a checkpoint that does not verify ({why})", "a checkpoint as it was written", "an older one, or a new run"
    )
