"""Functions with a forward and a backward pass of their own, as autograd sees them.

A `Passes` object is plain data and says how to compute a function of tensors, its gradients, and, for gradients of gradients, the
same function in differentiable steps. What the backward pass wants to find again is returned by the forward pass and saved as any
tensor is, so that checkpoints and saved-tensor hooks see it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from xdops.engine.tracing import is_transformed

Maybe = Tensor | None


class Passes(Protocol):
    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        """The result, and what the backward pass will want; nothing of it, if `keep` is False."""

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        """A gradient for every tensor, None where it is not needed. Leaves what was kept as it is: there may be a second call."""

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        """The same function in differentiable steps."""


def compute(passes: Passes, *tensors: Maybe) -> Tensor:
    """The function's value, differentiable to any order."""
    if is_transformed():
        return passes.plain(tensors)
    result: Tensor = _Run.apply(passes, *tensors)
    return result


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: Passes, *tensors: Maybe) -> Tensor:
        result, kept = passes.forward(tensors, keep=any(ctx.needs_input_grad))
        ctx.passes, ctx.count = passes, len(tensors)
        ctx.save_for_backward(*tensors, *kept)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Maybe, ...]:
        saved = ctx.saved_tensors  # read once: a checkpoint computes them anew at every reading
        tensors, kept, needs = saved[: ctx.count], saved[ctx.count :], ctx.needs_input_grad[1:]
        if torch._C._functorch.is_legacy_batchedtensor(grads[0]):  # many gradients at once: `jacobian(vectorize=True)`
            return None, *_vectorisable(ctx.passes, grads[0], tensors, needs)
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            return None, *_differentiable(ctx.passes, grads[0], tensors, needs)
        return None, *ctx.passes.backward(grads[0], tensors, kept, needs)


def _vectorisable(passes: Passes, g: Tensor, tensors: Sequence[Maybe], needs: Sequence[bool]) -> list[Maybe]:
    def plain(*wanted: Tensor) -> Tensor:
        found = iter(wanted)
        return passes.plain([next(found) if need else t for t, need in zip(tensors, needs, strict=True)])

    wanted = [t for t, need in zip(tensors, needs, strict=True) if need and t is not None]
    found = iter(torch.func.vjp(plain, *wanted)[1](g))
    return [next(found) if need else None for need in needs]


def _differentiable(passes: Passes, g: Tensor, tensors: Sequence[Maybe], needs: Sequence[bool]) -> list[Maybe]:
    """By views, each a tensor of its own: where one of the tensors is made from another, as by a layer that is used twice, what
    goes from the one to the other is not this function's.
    """
    own = [t if t is None else t.view_as(t) for t in tensors]
    wanted = [t for t, need in zip(own, needs, strict=True) if need and t is not None]
    found = iter(torch.autograd.grad(passes.plain(own), wanted, g, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needs]
