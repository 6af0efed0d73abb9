"""A network and its optimizers as named tensors plus JSON, and back."""

import json
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from xdops.errors import XDError

_NETWORK = "network."


def pack_network(network: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as tensors, and whatever extra state of its modules is not a tensor."""
    state = network.state_dict()
    tensors = {_NETWORK + k: v for k, v in state.items() if isinstance(v, Tensor)}
    extra = {k: v for k, v in state.items() if not isinstance(v, Tensor)}
    try:
        if json.loads(json.dumps(extra)) != extra:
            raise TypeError("it changes when written as JSON")
    except (TypeError, ValueError) as error:
        raise XDError(
            f"a network whose extra state {sorted(extra)} is not plain data ({error})",
            "tensors or JSON data",
            "get_extra_state of the module",
        ) from error
    return tensors, extra


def load_network(network: nn.Module, tensors: dict[str, Tensor], extra: dict[str, Any]) -> None:
    """Give the network the state that `pack_network` took, refusing one of another shape."""
    state: dict[str, Any] = {k.removeprefix(_NETWORK): t for k, t in tensors.items() if k.startswith(_NETWORK)} | extra
    own = network.state_dict()
    differing = sorted(set(own) ^ set(state)) + sorted(
        k for k in set(own) & set(state) if isinstance(own[k], Tensor) and own[k].shape != getattr(state[k], "shape", None)
    )
    if differing:
        shown = ", ".join(differing[:4]) + (f" and {len(differing) - 4} more" if len(differing) > 4 else "")
        raise XDError(f"a checkpoint of another network: {shown} differ", "the network it was saved from", "the run's own settings")
    network.load_state_dict(state)


def pack_optimizer(name: str, optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Momenta and the like as tensors NAME.parameter.key; the rest as JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for parameter, entries in state["state"].items():
        for key, value in entries.items():
            kind: dict[str, Any] = tensors if isinstance(value, Tensor) else numbers
            kind[f"{name}.{parameter}.{key}"] = value
    return tensors, {"numbers": numbers, "param_groups": state["param_groups"]}


def load_optimizer(name: str, optimizer: Optimizer, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Give the optimizer the state that `pack_optimizer` took."""
    own = {k: t for k, t in tensors.items() if k.startswith(f"{name}.")} | facts["numbers"]
    state: dict[int, dict[str, Any]] = {}
    for full, value in own.items():
        parameter, key = full.removeprefix(f"{name}.").split(".", 1)
        state.setdefault(int(parameter), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": facts["param_groups"]})


def finite(network: nn.Module) -> bool:
    """Whether every parameter and buffer is a finite number."""
    tensors = (t for t in (*network.parameters(), *network.buffers()) if t.is_floating_point() or t.is_complex())
    return all(bool(torch.isfinite(t).all()) for t in tensors)
