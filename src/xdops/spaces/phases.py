"""Convolutions of dilation 2 by their phases: every second entry sees every second entry alone, as if nothing were dilated.

The same sums as torch's own, whose dilated convolutions take up to twice the time of ordinary ones.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

_LEAST = 16  # of smaller inputs the phases are too small to be worth it


def conv_dilated_by_2(
    conv: Callable[..., Tensor], x: Tensor, kernel: Tensor, stride: Sequence[int], padding: Sequence[int], groups: int
) -> Tensor:
    """conv(x, kernel, dilation=2), conv being torch's function for as many dimensions."""
    sizes, halves = x.shape[2:], [p // 2 for p in padding]
    even = all(p % 2 == 0 for p in padding)
    if even and all(s == 2 for s in stride):  # only the first phase is looked at
        return conv(x[:, :, *(slice(None, None, 2) for _ in sizes)], kernel, None, 1, halves, 1, groups)
    if not even or any(s != 1 for s in stride) or any(m % 2 or m < _LEAST for m in sizes):
        return conv(x, kernel, None, stride, padding, 2, groups)
    dims = len(sizes)
    places, phases = range(2, 2 + 2 * dims, 2), range(3, 3 + 2 * dims, 2)
    apart = x.reshape(*x.shape[:2], *(part for m in sizes for part in (m // 2, 2)))
    apart = apart.permute(*phases, 0, 1, *places)
    y = conv(apart.flatten(0, dims), kernel, None, 1, halves, 1, groups)
    y = y.unflatten(0, (*(2,) * dims, x.shape[0]))  # phases, batch, channels, places
    together = [dim for d in range(dims) for dim in (dims + 2 + d, d)]
    return y.permute(dims, dims + 1, *together).reshape(*x.shape[:1], y.shape[dims + 1], *(2 * m for m in y.shape[dims + 2 :]))
