"""Models and examples on which surgery would go wrong without a word: refused, with the order of steps that works."""

import gc
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from xdops.convert.edges import check_module, kept_edge
from xdops.errors import XDError

#: Wrappers that hold on to the parameters they were given: where their classes are, and how to do it in order.
_WRAPPERS = {
    (
        "torch.nn.parallel",
        "DistributedDataParallel",
    ): "convert_ the bare model, then DistributedDataParallel(model)",
    ("torch.distributed.fsdp", "FullyShardedDataParallel"): "convert_ the bare model, then FullyShardedDataParallel(model)",
    ("torch.distributed.fsdp", "FSDPModule"): "convert_ the bare model, then fully_shard(model)",
    ("torch._dynamo.eval_frame", "OptimizedModule"): "convert_ the bare model (compiled._orig_mod), then torch.compile(model)",
}


def check_model(model: nn.Module, verb: str) -> None:
    """Refuse what already holds on to the layers that would be replaced, and parameters that cannot be read or trained."""
    if torch.is_inference_mode_enabled():
        raise XDError(
            f"{verb} inside torch.inference_mode()",
            "code outside of that block, where parameters can be trained",
            f"{verb} before the block",
        )
    check_values(model, verb)
    for name, module in model.named_modules():
        check_wrapper(name, module, verb)
        if kept_edge(module) is not None:
            raise XDError(f"a model whose {name} is merged", "operations that can be trained", "xdops.unmerge_(model) first")
    if isinstance(model, torch.jit.ScriptModule):
        raise XDError("a TorchScript module", "an ordinary nn.Module", f"{verb} the model that torch.jit.script was given")
    _check_data_parallel(model, verb)


def check_values(model: nn.Module, verb: str) -> None:
    """Refuse parameters without values, and those that can never be trained."""
    check_module(model)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            continue
        if tensor.is_meta:
            raise XDError(
                f"{name} on the meta device, without values",
                "a model whose parameters have values",
                f"model.to_empty(device='cpu') and load its weights, then {verb}",
            )
        if tensor.is_inference():
            raise XDError(
                f"{name}, which was made inside torch.inference_mode()",
                "parameters that can be trained",
                "build the model outside of that block",
            )


def check_whole(model: nn.Module, verb: str) -> None:
    """Refuse parameters of which this process holds only a part, and modules that take them apart again."""
    fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    shards = any(isinstance(module, fsdp) for module in model.modules())
    for name, tensor in model.named_parameters():
        if shards or hasattr(tensor, "full_tensor"):
            raise XDError(
                f"a model whose parameters, {name} for one, are sharded over processes",
                "a model whose parameters are whole",
                f"{verb} a converted model without fully_shard, after it has loaded the full state dict of this one "
                "(torch.distributed.checkpoint.state_dict.get_model_state_dict)",
            )


def check_finite(name: str, layer: nn.Module) -> None:
    """Refuse weights that are NaN or infinite: whatever took the place of such a layer would seem to agree with it."""
    for what, tensor in (*layer.named_parameters(), *layer.named_buffers()):
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise XDError(
                f"{name}.{what} with {bad:,} of {tensor.numel():,} values NaN or infinite",
                "finite weights",
                "the weights from before the training diverged",
            )


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, DataParallel and torch.compile."""
    while type(model).__name__ in ("DistributedDataParallel", "DataParallel", "OptimizedModule"):
        model = cast(nn.Module, model._orig_mod if hasattr(model, "_orig_mod") else model.module)
    return model


def check_wrapper(name: str, module: nn.Module, verb: str) -> None:
    """Refuse a module that is wrapped or compiled."""
    where = f"{name}, " if name else "a model that is "
    for (package, wrapper), hint in _WRAPPERS.items():
        found = getattr(sys.modules.get(package), wrapper, None)  # a model cannot be of a class that was never imported
        if found is not None and isinstance(module, found):
            raise XDError(f"{where}wrapped in {wrapper} already", f"a model that is wrapped after {verb}", hint)
    if getattr(module, "_compiled_call_impl", None) is not None:
        raise XDError(f"{where}compiled already", f"a model that is compiled after {verb}", "convert_, then model.compile()")


def _check_data_parallel(model: nn.Module, verb: str) -> None:
    """Refuse the inside of a DistributedDataParallel, whose gradients would no longer be averaged."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    wrapper = nn.parallel.DistributedDataParallel
    for found in gc.get_objects():
        if issubclass(type(found), wrapper) and any(m is model for m in found.modules()):
            check_wrapper("", found, verb)


def check_example(example_input: Any) -> None:
    """Refuse an example that holds no numbers: nothing could be compared."""
    for tensor in tensors_of(example_input):
        if tensor.numel() == 0:
            hint = "x[:1]" if tensor.shape[:1] == (0,) else "an example with channels and points"
            raise XDError(f"an example input of shape {tuple(tensor.shape)}", "at least one number, to compare outputs by", hint)
        if tensor.is_meta:
            raise XDError(
                "an example input on the meta device, without values", "numbers: outputs are compared", "torch.randn(...)"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise XDError("an example input with NaN or infinite values", "finite numbers: outputs are compared", "other examples")


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested containers and plain objects, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_of(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_of(vars(value))
