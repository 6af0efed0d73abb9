"""Complex numbers as real pairs: a real tensor with a trailing dimension of 2.

Parameters are stored like this so that dtype conversion, autocast, DDP, ONNX and every optimizer simply work.
"""

import torch
from torch import Tensor

from xdops.errors import XDError

_COMPLEX_OF = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def to_complex(pairs: Tensor) -> Tensor:
    """(..., 2) real -> (...) complex: a view, but for half precisions, which have no complex twin on every device, and for pairs
    that do not lie as complex numbers do: a parameter may be part of a longer vector, and start at an odd place in it."""
    if pairs.dtype in (torch.bfloat16, torch.float16):
        pairs = pairs.float()
    if pairs.stride(-1) != 1 or any(step % 2 for step in (*pairs.stride()[:-1], pairs.storage_offset())):
        pairs = pairs.clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(pairs)


def to_pairs(values: Tensor) -> Tensor:
    """(...) real or complex -> (..., 2) real."""
    if values.is_complex():
        return torch.view_as_real(values.resolve_conj())
    return torch.stack((values, torch.zeros_like(values)), dim=-1)


def as_complex(values: Tensor) -> Tensor:
    """A real or complex tensor as complex, half precisions in single precision."""
    if values.is_complex():
        return values
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    return values.to(_COMPLEX_OF[values.dtype])


def check_floating(dtype: torch.dtype, what: str) -> None:
    """Refuse integers and booleans, which would silently truncate."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise XDError(f"{what} of dtype {dtype}", "a floating-point dtype", "x.float()")
