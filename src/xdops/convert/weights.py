"""An operation takes over a layer's weights: the same parameters, and whatever computes the weight from them."""

from typing import Any

from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.weight_norm import WeightNorm


def weight_norm_hook(module: nn.Module) -> WeightNorm | None:
    """The hook of the older torch.nn.utils.weight_norm, if the module has one for its weight."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == "weight":
            return hook
    return None


def has_other_hooks(module: nn.Module) -> bool:
    """Hooks, other than that one, which would be lost with the module."""
    before = [hook for hook in module._forward_pre_hooks.values() if hook is not weight_norm_hook(module)]
    return bool(before or module._forward_hooks or module._backward_hooks or module._backward_pre_hooks)


def is_computed(module: nn.Module) -> bool:
    """Whether the weight is computed from other parameters."""
    return parametrize.is_parametrized(module) or weight_norm_hook(module) is not None


def share(layer: nn.Module, edge: Any) -> None:
    """Give `edge`, which has a weight and bias of its own of the same shapes, those of `layer`."""
    hook = weight_norm_hook(layer)
    if hook is not None:
        parametrizations.weight_norm(edge, "weight", hook.dim)
        edge.parametrizations.weight.original0 = layer.weight_g
        edge.parametrizations.weight.original1 = layer.weight_v
    for name in ("weight", "bias"):
        if parametrize.is_parametrized(layer, name):
            parametrize.register_parametrization(edge, name, nn.Identity())  # makes the property; the next line what is behind it
            edge.parametrizations[name] = layer.parametrizations[name]  # type: ignore[index]
        elif layer._parameters.get(name) is not None:
            setattr(edge, name, layer._parameters[name])

    if parametrize.is_parametrized(edge):
        edge.register_forward_pre_hook(_compute_once)
        edge.register_forward_hook(_forget, always_call=True)


_OPEN = "_xdops_open_caches"


def _compute_once(edge: nn.Module, args: Any) -> None:
    """One call computes the weight once: spectral_norm moves its estimate with every computation."""
    cache = parametrize.cached()
    cache.__enter__()
    edge.__dict__.setdefault(_OPEN, []).append(cache)


def _forget(edge: nn.Module, args: Any, output: Any) -> None:
    edge.__dict__[_OPEN].pop().__exit__(None, None, None)


def give_back(edge: Any, layer: Any) -> None:
    """The reverse: `layer` gets the parameters that `edge` has now, which may be other objects after a load."""
    if weight_norm_hook(layer) is not None:
        layer.weight_g = edge.parametrizations.weight.original0
        layer.weight_v = edge.parametrizations.weight.original1
        layer.weight = edge.weight.detach()  # as the hook would set it at the next call
    for name in ("weight", "bias"):
        if parametrize.is_parametrized(layer, name):
            layer.parametrizations[name] = edge.parametrizations[name]
        elif layer._parameters.get(name) is not None:
            setattr(layer, name, edge._parameters[name])
