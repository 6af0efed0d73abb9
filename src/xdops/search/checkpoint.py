"""Checkpoints: tensors as safetensors, the rest as sealed JSON that holds the tensors' sha256 and the run that they belong to.
Nothing is ever unpickled.

A checkpoint NAME is NAME.safetensors, written first, and NAME.json, written second, each in one step: with a JSON that verifies, it
is whole. The two newest generations of the running state are kept, each with the best weights it speaks of: whatever moment a run
is killed at, one of them verifies.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.search.folder import CHECKPOINTS, RESULT, read_result, run_digest
from xdops.search.packing import load_network
from xdops.storage.documents import SEAL, opened, read_json, understood, write_sealed
from xdops.storage.files import make_folder, write_file

KIND = "checkpoint"
_GENERATION = re.compile(r"last-(\d+)\.json")
_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a verified checkpoint holds."""

    path: Path  # of its JSON
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    sha256: str  # of the file of its tensors
    run: str  # the digest of the run that it belongs to


@checked
def save_checkpoint(folder: Path, name: str, tensors: dict[str, Tensor], facts: dict[str, Any], run: str = "") -> Path:
    """Write checkpoint `name` of `run`, the digest of its identity, into `folder`; returns the path of its safetensors."""
    folder = Path(folder)
    make_folder(folder)
    # safetensors holds no complex128 and no memory that is shared or strided: complex tensors go as pairs, all as copies.
    complex_names = sorted(k for k, t in tensors.items() if t.is_complex())
    plain = {k: torch.view_as_real(t) if t.is_complex() else t for k, t in tensors.items()}
    data = safetensors.torch.save({k: t.detach().cpu().clone(memory_format=torch.contiguous_format) for k, t in plain.items()})
    description = {"sha256": hashlib.sha256(data).hexdigest(), "complex": complex_names, "facts": facts}
    write_file(folder / f"{name}.safetensors", data)
    write_sealed(folder / f"{name}.json", KIND, run, description)
    return folder / f"{name}.safetensors"


@checked
def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint, given its .json or its .safetensors."""
    path = Path(path)
    if not path.name:
        raise _broken(path, "it is no file")
    description_path, tensors_path = path.with_suffix(".json"), path.with_suffix(".safetensors")
    try:
        document = read_json(description_path)
        description = opened(description_path, document, KIND, None)
        data = _read(tensors_path)
    except XDError as error:
        raise _broken(description_path, error.given.removeprefix(f"{description_path}, which ")) from error
    except OSError as error:
        raise _broken(tensors_path, str(error)) from error
    with understood(description_path):
        if hashlib.sha256(data).hexdigest() != description["sha256"]:
            raise _broken(tensors_path, "its sha256 differs")
        try:
            tensors = safetensors.torch.load(data)
        except SafetensorError as error:
            raise _broken(tensors_path, str(error)) from error
        for name in description["complex"]:
            tensors[name] = torch.view_as_complex(tensors[name])
        return Checkpoint(description_path, tensors, description["facts"], description["sha256"], document[SEAL]["run"])


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file")
    return path.read_bytes()


def save_generation(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any], run: str = "") -> None:
    """Save the running state as a new generation; older ones go once it is whole. facts["best"]: the epoch of the best weights."""
    numbers = _generations(folder)
    save_checkpoint(folder, f"last-{max(numbers, default=0) + 1:06d}", tensors, facts, run)
    kept = [*numbers[-(_KEPT - 1) :], max(numbers, default=0) + 1]
    best = {facts["best"]} | {_best_of(folder / f"last-{n:06d}.json") for n in kept[:-1]}
    keep = {f"last-{n:06d}" for n in kept} | {best_name(e) for e in best if e is not None}
    for path in [*folder.glob("last-*"), *folder.glob("best-*")]:
        if path.stem not in keep and not path.is_dir():  # folders of such names are not ours
            path.unlink(missing_ok=True)


def newest(folder: Path, run: str | None = None) -> Checkpoint | None:
    """The newest generation that verifies; None if none was ever written.

    run: the digest of the run to be continued. One of another run is no damage but a mistake, and refused.
    """
    numbers = _generations(folder)
    broken: XDError | None = None
    for number in reversed(numbers):
        try:
            return of_run(load_checkpoint(folder / f"last-{number:06d}.json"), run)
        except Foreign:
            raise
        except XDError as error:
            broken = error
    if broken is not None:
        raise broken
    return None


class Foreign(XDError):
    """A checkpoint of another run."""


def of_run(checkpoint: Checkpoint, run: str | None) -> Checkpoint:
    """The checkpoint, refused if it belongs to another run than this one."""
    if run is not None and checkpoint.run != run:
        raise Foreign(
            f"{checkpoint.path}, a checkpoint of another run (seed, space, settings or data)",
            "the checkpoints that this run wrote",
            "the folder as the run left it, or a new one",
        )
    return checkpoint


def best_name(epoch: int) -> str:
    """Name of the checkpoint of the best weights, found after this many epochs."""
    return f"best-{epoch:06d}"


@checked
def load_weights(path: Path, network: nn.Module, which: Literal["best", "last"] = "best") -> dict[str, Any]:
    """Load a run's weights into `network`: its best on validation, or its last. Returns the checkpoint's facts.

    path: the run's folder, or one checkpoint file. The network must be built as it was for the run.
    """
    path = Path(path)
    if not path.exists():
        raise XDError(f"{path}, which does not exist", "the folder of a run, or a checkpoint in it", "the --out of a search")
    checkpoint = _checkpoint_of(path, which) if path.is_dir() else load_checkpoint(path)
    with understood(checkpoint.path):
        load_network(network, checkpoint.tensors, checkpoint.facts["extra"])
    return checkpoint.facts


def _checkpoint_of(out: Path, which: Literal["best", "last"]) -> Checkpoint:
    """Of a finished run exactly the checkpoint that its result names; of one under way what its newest state speaks of."""
    folder = out / CHECKPOINTS
    numbers = _generations(folder)
    if not numbers:
        raise XDError(f"{out}, which holds no checkpoint", "the folder of a run", "the --out of a search")
    run = run_digest(out)
    if which == "best" and (out / RESULT).exists():
        result = read_result(out)
        checkpoint = of_run(load_checkpoint(folder / Path(result.best_checkpoint).name), run)
        if checkpoint.sha256 != result.best_sha256:
            raise _broken(checkpoint.path, f"{RESULT} names another of that name")
        return checkpoint
    last = of_run(load_checkpoint(folder / f"last-{numbers[-1]:06d}.json"), run)
    with understood(last.path):
        if which == "last" or last.facts["best"] is None:
            return last
        return of_run(load_checkpoint(folder / f"{best_name(int(last.facts['best']))}.json"), run)


def _generations(folder: Path) -> list[int]:
    return sorted(int(m[1]) for path in folder.glob("last-*.json") if (m := _GENERATION.fullmatch(path.name)))


def _best_of(path: Path) -> int | None:
    """Of a generation that may be damaged: then there is none to keep."""
    try:
        best = read_json(path)["facts"]["best"]
    except (XDError, KeyError, TypeError):
        return None
    return best if isinstance(best, int) else None


def _broken(path: Path, why: str) -> XDError:
    return XDError(
        f"{path}, a checkpoint that does not verify ({why})", "a checkpoint as it was written", "an older one, or a new run"
    )
