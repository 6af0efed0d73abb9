"""The layer a warm start was made from, as a function: what the operation computes while its architecture is untouched."""

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Source:
    """A convolution's settings; its weights are the operation's own."""

    transposed: bool
    dims: int
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int
    output_padding: tuple[int, ...]
    padding_mode: str
    explicit: tuple[int, ...]  # the padding, as F.pad takes it, for modes other than zeros

    @staticmethod
    def of(conv: Any) -> "Source":
        return Source(
            isinstance(conv, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d),
            len(conv.kernel_size),
            tuple(conv.stride),
            conv.padding if isinstance(conv.padding, str) else tuple(conv.padding),
            tuple(conv.dilation),
            conv.groups,
            tuple(conv.output_padding),
            conv.padding_mode,
            tuple(conv._reversed_padding_repeated_twice),
        )

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.transposed:
            transposed: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.dims - 1]
            return transposed(x, weight, bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        conv: Any = (F.conv1d, F.conv2d, F.conv3d)[self.dims - 1]
        if self.padding_mode == "zeros":
            return conv(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(x, self.explicit, mode=self.padding_mode)
        return conv(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def layer(self, weight: Tensor, bias: Tensor | None) -> nn.Module:
        """The convolution itself, with copies of these parameters, which are fixed."""
        convs: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
        transposed: Any = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        first, second = weight.shape[0], weight.shape[1] * self.groups
        settings: dict[str, Any] = {"bias": False, "padding_mode": self.padding_mode, "device": "meta"}
        settings |= {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        if self.transposed:
            conv = transposed[self.dims - 1](first, second, weight.shape[2:], output_padding=self.output_padding, **settings)
        else:
            conv = convs[self.dims - 1](second, first, weight.shape[2:], **settings)
        conv.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        conv.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
        return conv


class Start:
    """The values that parameters started with, to tell at any time, by value, whether they are still the same."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.values = [p.detach().clone(memory_format=torch.contiguous_format) for p in parameters]

    def is_now(self, parameters: Iterable[Tensor]) -> bool:
        return all(same_memory(self.values[i], p) or self._is_equal(i, p) for i, p in enumerate(parameters))

    def _is_equal(self, i: int, p: Tensor) -> bool:
        """Whether p holds value i, or what is left of it in the precision that p has by now."""
        value = self.values[i]
        if p.is_meta or value.is_meta:  # without values there is nothing to compare
            return False
        if value.device != p.device:
            value = self.values[i] = value.to(p.device)
        return torch.equal(value.to(p.dtype), p)


def same_memory(value: Tensor, p: Tensor) -> bool:
    """Whether both are ordinary tensors in main memory that agree to the bit. Frozen layers ask this of every parameter of the
    architecture at every call, and comparing memory answers faster than `torch.equal`."""
    return (
        type(p) in _PLAIN
        and value.dtype == p.dtype
        and value.is_cpu
        and p.is_cpu
        and p.is_contiguous()
        and not p.is_neg()
        and value.shape == p.shape
        and _memcmp(value.data_ptr(), p.data_ptr(), p.nbytes) == 0
    )


def _never_equal(a: int, b: int, count: int) -> int:
    return 1


def _find_memcmp() -> Callable[[int, int, int], int]:
    """That of C's library, where it is loaded; elsewhere memory never counts as equal, and `torch.equal` decides."""
    try:
        found = ctypes.PyDLL(None).memcmp
    except (OSError, TypeError, AttributeError):
        return _never_equal
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    return cast(Callable[[int, int, int], int], found)


_memcmp = _find_memcmp()

#: Tensors that are nothing but their memory.
_PLAIN = (nn.Parameter, Tensor)
