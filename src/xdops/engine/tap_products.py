"""K diag(L[:, j]) for every tap j, as real matrices, and the way back: by kernels, in one pass over memory, or by torch.

K is planar, (2, rows, n), and so are the taps, (2, k, n): the columns of L as rows.
"""

import torch
from torch import Tensor

from xdops.engine.kernels import can_run, threads
from xdops.engine.kernels.applying import address
from xdops.engine.workspace import Workspace

#: Numbers that are worth a thread.
WORTH = 1 << 15


def products(K: Tensor, taps: Tensor, rows: slice, space: Workspace) -> Tensor:
    """(k r, 2 n): real part and negated imaginary part of these rows of K diag(L[:, j]), side by side."""
    r, n, k = rows.stop - rows.start, K.shape[2], taps.shape[1]
    out = space.empty((k, r, 2, n), K)
    if can_run(K.dtype, K.device.type):
        from xdops.engine.kernels.tap_products import forward

        forward(K.dtype, _words(K, taps, out, rows), _parts(out))
    else:
        some, each = K[:, rows], taps[:, :, None]
        torch.mul(some[0], each[0], out=out[:, :, 0]).addcmul_(some[1], each[1], value=-1)
        torch.mul(some[0], each[1], out=out[:, :, 1]).addcmul_(some[1], each[0]).neg_()
    return out.view(k * r, 2 * n)


def products_back(g: Tensor, K: Tensor, taps: Tensor, rows: slice, grad_K: Tensor, grad_taps: Tensor, space: Workspace) -> None:
    """From the gradient g of the products, (k r, 2 n): that of K's rows into grad_K, that of the taps onto grad_taps."""
    r, n, k = rows.stop - rows.start, K.shape[2], taps.shape[1]
    g = g.view(k, r, 2, n)
    if can_run(K.dtype, K.device.type):
        from xdops.engine.kernels.tap_products import backward

        parts = _parts(g)
        sums = taps.new_zeros(parts, *taps.shape)  # one per part
        backward(K.dtype, [*_words(K, taps, g, rows), _first(grad_K, rows), address(sums)], parts)
        grad_taps += sums.sum(0)
        return
    real, imaginary = g[:, :, 0], g[:, :, 1]
    some, each, t = K[:, rows], taps[:, :, None], space.empty((k, r, n), g)
    torch.sum(torch.mul(real, each[0], out=t).addcmul_(imaginary, each[1], value=-1), dim=0, out=grad_K[0, rows])
    torch.sum(torch.mul(real, each[1], out=t).addcmul_(imaginary, each[0]), dim=0, out=grad_K[1, rows]).neg_()
    grad_taps[0] += torch.mul(real, some[0], out=t).addcmul_(imaginary, some[1], value=-1).sum(1)
    grad_taps[1] -= torch.mul(real, some[1], out=t).addcmul_(imaginary, some[0]).sum(1)


def _words(K: Tensor, taps: Tensor, out: Tensor, rows: slice) -> list[int]:
    """What both kernels are told, see there."""
    k, r, _, n = out.shape
    return [_first(K, rows), address(taps), address(out), r, n, k, K.shape[1] * n]


def _first(K: Tensor, rows: slice) -> int:
    return address(K) + rows.start * K.shape[2] * K.element_size()


def _parts(out: Tensor) -> int:
    return threads.parts(out.shape[1], least=-(-WORTH * out.shape[1] // out.numel()))
