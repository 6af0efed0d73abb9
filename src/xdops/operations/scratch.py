"""Working memory that is kept between calls.

Fresh memory of some megabytes costs more than the arithmetic done in it: the operating system hands it out page by page.
Intermediate results that never leave a forward or backward pass are therefore written into buffers that are kept, one per role,
thread and dtype.
"""

import math
import threading

import torch
from torch import Tensor


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.by_role: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}


_buffers = _Buffers()


def scratch(role: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor that is valid until the same role is asked for again."""
    if torch.compiler.is_compiling():  # a compiler plans memory by itself
        return like.new_empty(shape)
    size = math.prod(shape)
    key = (role, like.dtype, like.device)
    buffer = _buffers.by_role.get(key)
    if buffer is None or buffer.numel() < size:
        _buffers.by_role.pop(key, None)
        del buffer
        buffer = _buffers.by_role[key] = torch.empty(size, dtype=like.dtype, device=like.device)
    return buffer[:size].view(shape)


def release_scratch() -> None:
    """Give this thread's working memory back."""
    _buffers.by_role.clear()
