"""Hooks that a user has put on a layer belong to its place in the model: they stay, whichever module stands there."""

from torch import nn

from xdops.operations.architecture import computes_weight

#: torch's own dictionaries of hooks, and of how they want to be called.
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
)


def pass_hooks_on(old: nn.Module, new: nn.Module) -> None:
    """Give `new`, which takes the place of `old`, the hooks of that place: the same dictionaries, so that their handles work on.

    Hooks that compute a weight (pruning, say) stay behind: what they compute is in `new` already.
    """
    for kind in _HOOKS:
        hooks, own = getattr(old, kind), getattr(new, kind)
        if own or any(map(computes_weight, hooks.values())):
            own.update({key: hook for key, hook in hooks.items() if not computes_weight(hook)})
        else:
            setattr(new, kind, hooks)
    new._is_full_backward_hook = old._is_full_backward_hook
