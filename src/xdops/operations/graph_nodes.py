"""What `torch.fx.symbolic_trace` sees of an operation: one node of its graph, as of torch's own layers."""

from typing import Any

from torch import nn

from xdops.errors import XDError


def as_node(module: nn.Module, x: Any) -> Any:
    """The call of this module on x, one of the stand-ins for tensors that `torch.fx` sends through a model."""
    if module is x.tracer.root:
        raise XDError(
            f"an operation ({type(module).__name__}) as the whole of what torch.fx traces",
            "a model that contains it, in which it becomes one node",
            "torch.fx.symbolic_trace(nn.Sequential(op))",
        )
    return x.tracer.create_proxy("call_module", x.tracer.path_of_module(module), (x,), {})
