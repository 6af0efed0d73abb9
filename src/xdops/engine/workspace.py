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
        self.returned: list[Tensor] = []


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
        buffer = _buffers.by_role[key] = _fresh(size, like)
    return buffer[:size].view(shape)


#: How many returned buffers are kept for the next lease.
MOST_RETURNED = 64


class Lease:
    """A tensor kept from a forward pass to its backward pass; its memory goes to the next lease when nobody holds this one."""

    def __init__(self, shape: tuple[int, ...], like: Tensor) -> None:
        size = math.prod(shape)
        self.buffer: Tensor | None = None
        for i, buffer in enumerate(_buffers.returned):
            alike = buffer.dtype == like.dtype and buffer.device == like.device
            if alike and size <= buffer.numel() <= 2 * size:
                self.buffer = _buffers.returned.pop(i)
                break
        if self.buffer is None:
            self.buffer = _fresh(size, like)
        self.tensor = self.buffer[:size].view(shape)

    def __del__(self) -> None:
        if _buffers is not None and self.buffer is not None and len(_buffers.returned) < MOST_RETURNED:
            _buffers.returned.append(self.buffer)


def _fresh(size: int, like: Tensor) -> Tensor:
    """Memory that training can use too, whoever asks first: tensors made in inference mode stay closed to autograd for ever."""
    with torch.inference_mode(False):
        return torch.empty(size, dtype=like.dtype, device=like.device)


def release_scratch() -> None:
    """Give this thread's working memory back."""
    _buffers.by_role.clear()
    _buffers.returned.clear()
