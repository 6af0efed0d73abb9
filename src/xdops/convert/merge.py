"""Operations fixed for inference: plain modules take their places, and the operations wait beside them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xdops.convert.edges import check_module, keep_edge, kept_edge
from xdops.convert.hooks import pass_hooks_on
from xdops.convert.refusals import check_whole
from xdops.convert.replace import swap
from xdops.errors import XDError
from xdops.operations import Operation


def merge_(model: nn.Module) -> None:
    """Put a plain module that computes the same in the place of every XD-operation, with everything fixed that does not depend on
    the input; see `XDOperation.merged`.

    Merged layers have no parameters that learn, not even in training mode; the layers between them stay as they were.
    Operations are merged as they are now: what is loaded into the model afterwards goes to the merged layers, under their own
    names, and then there is no way back. Merging again changes nothing. Edges of other spaces stay.
    """
    if isinstance(model, Operation):
        raise XDError(
            "a model that is itself an XD-operation",
            "a model that contains the operations to merge",
            "op.merged(), or nn.Sequential(op)",
        )
    check_module(model)
    check_whole(model, "merge_")
    merge_operations(model, [op for op in model.modules() if isinstance(op, Operation)])


def merge_operations(model: nn.Module, operations: Sequence[Operation]) -> None:
    """Merge these operations of the model: all of them, or, with an error, none."""
    plain = [(op, op.merged()) for op in operations]
    for op, module in plain:
        keep_edge(module, op)
        pass_hooks_on(op, module)
        swap(model, op, module)


def unmerge_(model: nn.Module) -> None:
    """Put the XD-operations back, as they were when they were merged, in the dtype and on the device that the model has now.

    Refused if a merged layer was given other values meanwhile, by load_state_dict, say: these have no operations to go back to.
    """
    for module, op in merged_layers(model):
        like = next(t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point())
        pass_hooks_on(module, op)
        swap(model, module, op.to(like.device, like.dtype))


def merged_layers(model: nn.Module) -> list[tuple[nn.Module, Operation]]:
    """Every merged layer with its operation; refused if one of them no longer computes what its operation does."""
    check_module(model)
    found = []
    for name, module in model.named_modules():
        op = kept_edge(module)
        if op is not None:
            assert isinstance(op, Operation)
            if not is_still(module, op):
                raise XDError(
                    f"a model whose {name} was changed after it was merged",
                    "merged layers that compute what their operations do",
                    "load what was merged, then unmerge_ and change the operations",
                )
            found.append((module, op))
    return found


def is_still(module: nn.Module, op: Operation) -> bool:
    """Whether a merged module holds what its operation would be merged to now, up to rounding, dtype and device."""
    now, fresh = module.state_dict(), op.merged().state_dict()
    return now.keys() == fresh.keys() and all(agree(now[key], fresh[key].to(now[key])) for key in now)


def agree(now: Tensor, fresh: Tensor) -> bool:
    """Up to the rounding of sums in another order, as another number of threads takes them."""
    if now.shape != fresh.shape or not now.is_floating_point():
        return torch.equal(now, fresh)
    rounding = 64 * torch.finfo(now.dtype).eps * float(fresh.abs().max()) if fresh.numel() else 0.0
    return torch.allclose(now, fresh, rtol=0, atol=rounding)
