"""Parameter groups for any optimizer: weights and architecture learn at rates of their own."""

from typing import Any

from torch import nn

from xdops.convert.edges import arch_parameters, weight_parameters
from xdops.errors import XDError


def parameter_groups(
    model: nn.Module, lr: float, arch_lr: float, weight_decay: float = 0.0, arch_weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """Two groups, `torch.optim.Adam(xdops.parameter_groups(model, lr=1e-3, arch_lr=1e-4))`.

    "architecture": what `arch_parameters` lists, the K, L, M, b and C that learn (the mixture weights of a DARTS space), with
    `arch_lr` and `arch_weight_decay`. "weights": everything else, filters, biases, norms and linear layers, with `lr` and
    `weight_decay`. No parameter is in both; an empty group is left out. Parameters that are frozen at the moment are listed too,
    so that they learn once they are unfrozen: optimizers pass over what has no gradient.
    """
    given = {"lr": lr, "arch_lr": arch_lr, "weight_decay": weight_decay, "arch_weight_decay": arch_weight_decay}
    for name, value in given.items():
        check_rate(name, value)
    groups = [
        {"name": "weights", "params": weight_parameters(model), "lr": lr, "weight_decay": weight_decay},
        {"name": "architecture", "params": arch_parameters(model), "lr": arch_lr, "weight_decay": arch_weight_decay},
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise XDError(
            "a model without parameters", "something that learns", "a merged model learns again after xdops.unmerge_(model)"
        )
    return groups


def check_rate(name: str, value: object) -> None:
    """Refuse what no optimizer can use; a tensor of one number will do, too."""
    try:
        good = not isinstance(value, str | bool) and 0 <= float(value) < float("inf")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        good = False
    if not good:
        raise XDError(f"{name}={value!r}", "zero or a positive number", f"{name}=1e-3")
