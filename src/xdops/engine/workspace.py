"""Working memory that is used again.

Fresh memory of some megabytes costs more than the arithmetic done in it: the operating system hands it out page by page. A
`Workspace` hands out uninitialised tensors of memory that it keeps, and hands memory out again once nobody holds a tensor of it any
more, be it a local variable or a graph that waits for its backward pass. So it never needs to be told what is still in use.
"""

import math
import threading

import torch
from torch import Tensor

#: Up to so many bytes the C library reuses memory well by itself.
SMALL = 1 << 16

#: So many buffers of about one size are kept.
MOST = 64

#: Free buffers that were not wanted for so many requests are given up when new memory is needed.
IDLE = 4096

#: Holders of a buffer that nobody uses: its tensor and its storage, both below.
_NOBODY = 2


class _Buffer:
    __slots__ = ("storage", "tensor", "used")

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        with torch.inference_mode(False):  # tensors made in inference mode would stay closed to autograd for ever
            self.tensor = torch.empty(size, dtype=dtype, device="cpu")
        self.storage = self.tensor.untyped_storage()
        self.used = 0

    @property
    def free(self) -> bool:
        return torch._C._storage_Use_Count(self.storage._cdata) == _NOBODY


def _last_used(buffer: _Buffer) -> int:
    return buffer.used


class Workspace:
    """The memory of one thread."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[torch.dtype, int], list[_Buffer]] = {}
        self.requests = 0

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised contiguous tensor, with the dtype and device of another."""
        size = math.prod(shape)
        if size * like.element_size() <= SMALL or like.device.type != "cpu":
            return like.new_empty(shape)
        self.requests += 1
        octave = size.bit_length()
        alike = self.buffers.setdefault((like.dtype, octave), [])
        free = [buffer for buffer in alike if buffer.free]
        if free:
            buffer = max(free, key=_last_used)  # most likely still in the cache
        elif len(alike) >= MOST:
            return like.new_empty(shape)
        else:
            self._give_up_idle()
            buffer = _Buffer(1 << octave, like.dtype)  # pages that are never touched take no memory
            alike.append(buffer)
        buffer.used = self.requests
        return buffer.tensor[:size].view(shape)

    def _give_up_idle(self) -> None:
        for alike in self.buffers.values():
            alike[:] = [b for b in alike if b.used + IDLE > self.requests or not b.free]


_of_thread = threading.local()


def workspace() -> Workspace:
    """This thread's."""
    try:
        found: Workspace = _of_thread.workspace
    except AttributeError:
        found = _of_thread.workspace = Workspace()
    return found


def release_scratch() -> None:
    """Give this thread's working memory back."""
    workspace().buffers.clear()
