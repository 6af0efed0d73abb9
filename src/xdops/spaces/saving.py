"""A searched network in one file: its tensors, and in the header how the backbone was converted. Nothing in it is ever run.

The file is safetensors; its metadata holds one entry "xdops", a JSON text:

    format    1; a file of a later format is refused
    versions  of xdops and torch
    model     the backbone's class, for messages
    layers    per converted layer: name, kind, config, channels, input size and whatever else makes it again (`spaces/records.py`)
    grown     layers that came back with larger filters: name -> least kernel size
    merged    names of the layers that were merged; the file holds the operations, which are merged again
    same      tensors that are the same parameter as another: name -> name
    complex   names of complex tensors, which are stored as real pairs
    extra     state of modules that is no tensor (get_extra_state), as JSON
    sha256    of all other entries and of the tensors: what was changed after it was written is refused
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xdops.arguments import check
from xdops.convert.edges import kept_edge
from xdops.convert.refusals import check_values, unwrapped
from xdops.errors import XDError
from xdops.operations.operation import OLD_COLUMNS
from xdops.operations.resampling import ResampledOperation
from xdops.spaces.records import merge_again_, repeat_, surgery
from xdops.storage.documents import understood
from xdops.storage.files import check_target, write_file

FORMAT = 1
WHOLE, AGAIN = "a whole file of xdops.save", "another copy of it, or save the model again"
_SHOWN = 4  # differences that an error lists


def save(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a converted, merged or reverted model, or a plain one, to one safetensors file, whole or not at all.

    `load(path, build)` reads it, where build() makes the backbone. Wrappers (DistributedDataParallel, torch.compile) are not saved.
    """
    import safetensors.torch

    import xdops

    check("path", path, str | os.PathLike, "xdops.save")
    path, model = Path(path), unwrapped(model)
    if not path.parent.is_dir():
        raise XDError(f"{path}, in a folder that does not exist", "a file in an existing folder", f"mkdir -p {path.parent}")
    check_target(path)
    check_values(model, "save")
    check_not_resized(model)
    state = unmerged_state(model)
    tensors, same = unique({name: value for name, value in state.items() if isinstance(value, Tensor)})
    header = {
        "format": FORMAT,
        "versions": {"xdops": xdops.__version__, "torch": torch.__version__},
        "model": type(model).__name__,
        **surgery(model),
        "same": same,
        "complex": sorted(name for name, t in tensors.items() if t.is_complex()),
        "extra": plain_data({name: value for name, value in state.items() if not isinstance(value, Tensor)}),
    }
    pairs = {name: torch.view_as_real(t) if t.is_complex() else t for name, t in tensors.items()}
    copies = {name: t.cpu().clone(memory_format=torch.contiguous_format) for name, t in pairs.items()}
    write_file(path, safetensors.torch.save(copies, {"xdops": json.dumps(header | {"sha256": digest(header, copies)})}))


def digest(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Of the header, but for its own entry, and of every tensor: name, dtype, shape and bytes."""
    entries = {key: value for key, value in header.items() if key != "sha256"}
    found = hashlib.sha256(json.dumps(entries, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def check_not_resized(model: nn.Module) -> None:
    """A file holds operations at the size that they were made for; what is around them on another grid follows from the grid."""
    for name, module in model.named_modules():
        if isinstance(module, ResampledOperation):
            raise XDError(
                f"a model whose {name} was resized",
                "a model at the size that it was converted for",
                "save before resize_, or resize_ back to the old size first; load, then resize_ again",
            )


def load(path: str | os.PathLike[str], build: Callable[[], nn.Module] | nn.Module) -> nn.Module:
    """The model that was saved: build() makes its backbone (or is it), which is converted as recorded and given the tensors.

    Needs no example. Refuses a file that is not xdops's, was changed since, or is of a later format, and a backbone other than the
    one that was saved, naming what differs.
    """
    check("path", path, str | os.PathLike, "xdops.load")
    path = Path(path)
    header, tensors = read(path)
    if not isinstance(build, nn.Module) and not callable(build):
        raise XDError(f"a build that is a {type(build).__name__}", "what makes the backbone", "load(path, lambda: LeNet())")
    model = build if isinstance(build, nn.Module) else build()
    if not isinstance(model, nn.Module):
        raise XDError(f"a build that returns a {type(model).__name__}", "the backbone, an nn.Module", "load(path, lambda: LeNet())")
    check_values(model, "load")
    with understood(path, WHOLE, AGAIN):
        state = {name: torch.view_as_complex(t) if name in header["complex"] else t for name, t in tensors.items()}
        state |= {name: state[other] for name, other in header["same"].items()}
        repeat_(model, header, {name: tuple(t.shape) for name, t in tensors.items()})
        check_state(f"{path}, saved from a {header['model']}", model, state | header["extra"])
        take_dtypes(model, state)
        model.load_state_dict(state | header["extra"])
        merge_again_(model, header)
    return model


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file that is ours and not from the future."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise XDError(f"{path}, which is no file", "one that xdops.save has written", "its name as given to save")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata["xdops"])
            version = header["format"]
            if isinstance(version, int) and version > FORMAT:
                raise XDError(
                    f"{path}, of format {version}, written by xdops {header.get('versions', {}).get('xdops', '?')}",
                    f"format {FORMAT}, which is all that this version knows",
                    "a newer xdops: pip install --upgrade xdops",
                )
            if version != FORMAT:
                raise not_ours(path, f"its format is {version!r}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dict
            if header.get("sha256") != digest(header, tensors):
                raise XDError(f"{path}, which does not verify: it was changed after it was written", WHOLE, AGAIN)
            return header, tensors
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, XDError):
            raise
        why = "it has no xdops header" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        raise not_ours(path, why) from error


def not_ours(path: Path, why: str) -> XDError:
    return XDError(f"{path}, which xdops.save has not written ({why})", WHOLE, AGAIN)


def unmerged_state(model: nn.Module) -> dict[str, Any]:
    """The state dict with operations, not what they were merged to."""
    state = model.state_dict(keep_vars=True)
    for name, place in model.named_modules(remove_duplicate=False):
        edge = kept_edge(place)
        if edge is not None:
            state = {key: value for key, value in state.items() if not key.startswith(f"{name}.")}
            state |= edge.state_dict(prefix=f"{name}.", keep_vars=True)
    return state


def unique(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every tensor once, detached, and the other names of those that have several."""
    first: dict[int, str] = {}
    same = {name: first[id(t)] for name, t in tensors.items() if first.setdefault(id(t), name) != name}
    return {name: t.detach() for name, t in tensors.items() if name not in same}, same


def plain_data(extra: dict[str, Any]) -> dict[str, Any]:
    """Extra state of modules, if JSON can hold it."""
    try:
        if json.loads(json.dumps(extra)) == extra:
            return extra
        why = "it changes when written as JSON"
    except (TypeError, ValueError) as error:
        why = str(error)
    names = ", ".join(extra)
    raise XDError(f"a model whose extra state {names} is not plain data ({why})", "tensors or JSON data", "its get_extra_state")


def check_state(given: str, model: nn.Module, state: Mapping[str, Any]) -> None:
    """Refuse tensors of other names and shapes than the model's, naming them."""
    own = model.state_dict()
    known = [name for name in state if not name.rpartition(".")[2].startswith(OLD_COLUMNS)]
    differing = [f"{name} is missing here" for name in known if name not in own]
    differing += [f"{name} is missing there" for name in own if name not in state]
    for name in own:
        there, here = (tuple(getattr(tensors.get(name), "shape", ())) for tensors in (state, own))
        if name in state and there != here:
            differing.append(f"{name} is {there} there, {here} here")
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        raise XDError(
            given, f"the backbone that was saved, but {'; '.join(differing[:_SHOWN])}{more}", "the build that made the saved model"
        )


def take_dtypes(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give the model the dtypes that were saved; tied parameters stay tied."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and tensor.dtype != state[name].dtype:
            tensor.data = tensor.data.to(state[name].dtype)
