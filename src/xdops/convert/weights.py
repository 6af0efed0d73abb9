"""An operation takes over a layer's weights: the same parameters, and whatever computes the weight from them; and back."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm

_NAMES = ("weight", "bias")


def weight_norm_hook(module: nn.Module) -> WeightNorm | None:
    """The hook of the older torch.nn.utils.weight_norm, if the module has one for its weight."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == "weight":
            return hook
    return None


def has_other_hooks(module: nn.Module) -> bool:
    """Hooks, other than that one, which would be lost with the module."""
    before = [hook for hook in module._forward_pre_hooks.values() if hook is not weight_norm_hook(module)]
    calls = before or module._forward_hooks or module._backward_hooks or module._backward_pre_hooks
    files = module._state_dict_pre_hooks or module._state_dict_hooks or module._load_state_dict_post_hooks
    return bool(calls or files)  # not those before loading: torch's weight_norm has one, and load_state_dict tells what it misses


def is_own(module: nn.Module) -> bool:
    """Whether weight and bias are the module's own parameters, computed from nothing else."""
    return all(name in module._parameters or getattr(module, name, None) is None for name in _NAMES)


def can_be_shared(module: nn.Module) -> bool:
    """Whether weight and bias are parameters, buffers, or computed by a parametrization or weight_norm."""
    known = {*module._parameters, *module._buffers, *getattr(module, "parametrizations", ())}
    if weight_norm_hook(module) is not None:
        known.add("weight")
    return all(name in known or getattr(module, name, None) is None for name in _NAMES)


@torch.no_grad()
def value(module: nn.Module, name: str) -> Tensor:
    """The weight or bias as it is now, however it comes about."""
    found: Tensor = getattr(module, name).detach()
    return found


def share(layer: nn.Module, edge: Any) -> None:
    """Give `edge`, which has a weight and bias of its own of the same shapes, those of `layer`."""
    hook = weight_norm_hook(layer)
    if hook is not None:
        parametrizations.weight_norm(edge, "weight", hook.dim)
        edge.parametrizations.weight.original0 = layer.weight_g
        edge.parametrizations.weight.original1 = layer.weight_v
    for name in _NAMES:
        if parametrize.is_parametrized(layer, name):
            _share_parametrization(layer, edge, name)
        elif layer._parameters.get(name) is not None:
            setattr(edge, name, layer._parameters[name])
        elif layer._buffers.get(name) is not None:
            del edge._parameters[name]
            edge.register_buffer(name, layer._buffers[name], name not in layer._non_persistent_buffers_set)


def move(edge: Any, layer: Any, names: Sequence[str] = _NAMES) -> None:
    """The reverse: `layer` gets what `edge` has now, which may be other parameters after a load, or no longer parametrized."""
    for name in names:
        if parametrize.is_parametrized(edge, name):
            if name == "weight" and weight_norm_hook(layer) is not None:
                layer.weight_g = edge.parametrizations.weight.original0
                layer.weight_v = edge.parametrizations.weight.original1
                layer.weight = value(edge, "weight")  # as the hook would set it at the next call
            else:
                _share_parametrization(edge, layer, name)
        elif getattr(edge, name, None) is not None:
            _make_plain(layer, name)
            if name in edge._buffers:
                del layer._parameters[name]
                layer.register_buffer(name, edge._buffers[name], name not in edge._non_persistent_buffers_set)
            elif name in edge._parameters:
                setattr(layer, name, edge._parameters[name])
            else:  # pruned: computed from other tensors by a hook that stays behind
                setattr(layer, name, nn.Parameter(value(edge, name).clone(), getattr(edge, name).requires_grad))


def _share_parametrization(owner: Any, other: Any, name: str) -> None:
    if not parametrize.is_parametrized(other, name):
        parametrize.register_parametrization(other, name, nn.Identity())  # makes the property; the next line what is behind it
    other.parametrizations[name] = owner.parametrizations[name]


def _make_plain(layer: Any, name: str) -> None:
    """A parameter of this name, computed by nothing; its value is about to be replaced."""
    if parametrize.is_parametrized(layer, name):
        # A single original is shared with the edge: torch must not compute the weight into it. Of several it makes a new tensor.
        computed: bool = not layer.parametrizations[name].is_tensor
        parametrize.remove_parametrizations(layer, name, leave_parametrized=computed)
    elif name == "weight" and weight_norm_hook(layer) is not None:
        remove_weight_norm(layer)
    stale = layer._buffers.pop(name, None)
    if stale is not None:
        layer._non_persistent_buffers_set.discard(name)
    if layer._parameters.get(name) is None:
        layer.__dict__.pop(name, None)
        layer.register_parameter(name, nn.Parameter(getattr(layer, name, stale), requires_grad=False))
