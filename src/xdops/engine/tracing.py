"""Who is watching while something is computed: compilers, exporters and transforms must see other steps than the fast ones."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_transformed() -> bool:
    """Whether a function transform or forward-mode differentiation is at work, which have to see every step."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def is_traced(x: Tensor) -> bool:
    """Whether somebody is watching: a compiler, an exporter, a function transform, dual numbers, or a tensor without values."""
    return (
        torch.compiler.is_compiling()
        or is_transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._is_tracing()
        or x.is_meta
    )


def is_compiled() -> bool:
    """Whether `torch.compile` is watching, which takes an operator as one node; what an exporter writes must do without ours."""
    return torch.compiler.is_compiling() and not torch.compiler.is_exporting()
