"""B_j[p][l, l'] M1[l'][p, h'] for every tap j, complex, and the way back: by kernels, in one pass over memory, or by torch.

B is planar, (2, taps, D, H, D), its indices (j, l, p, l'); so is M1, (2, H, H_in, D), its indices (p, h', l').
"""

import torch
from torch import Tensor

from xdops.engine.kernels import can_run
from xdops.engine.kernels.applying import address
from xdops.engine.planar import rotate
from xdops.engine.workspace import Workspace

#: A vector of kernels: they want as many values of the low digit.
LANES = 8


def digit_products(B: Tensor, M1: Tensor, space: Workspace) -> Tensor:
    """(taps, D, 2, H, H_in, D): the products with indices (j, l, part, p, h', l'), in working memory."""
    _, taps, low, high, _ = B.shape
    T = space.empty((taps, low, 2, high, M1.shape[2], low), B)
    if _by_kernels(M1):
        from xdops.engine.kernels.digit_products import forward

        forward(B.dtype, [*_words(B, M1, T), 0], high)
        return T
    real, imaginary = B[:, :, :, None, :, None]
    return torch.mul(real, M1, out=T).addcmul_(imaginary, rotate(M1))


def digit_products_back(g: Tensor, B: Tensor, M1: Tensor, grad_B: Tensor, grad_M1: Tensor, space: Workspace) -> None:
    """From the gradient g of the products: B's, g conj(M1), into grad_B; M1's, g conj(B), onto grad_M1."""
    if _by_kernels(M1):
        from xdops.engine.kernels.digit_products import backward

        low = M1.shape[3]
        vectors, whole = -(-low // LANES), low - low % LANES
        sums = space.empty((*M1.shape[:3], vectors * LANES), M1)  # the last vector ends where the row does
        backward(B.dtype, [*_words(B, M1, g), grad_B.stride(0), address(grad_B[0]), address(sums)], B.shape[3])
        grad_M1[..., :whole] += sums[..., :whole]
        grad_M1[..., whole:] += sums[..., vectors * LANES - (low - whole) :]
        return
    product = space.empty(tuple(g.shape), g)
    for part, factor in zip(grad_B, (M1, rotate(M1)), strict=True):  # over h', then over the parts: together is much slower
        torch.sum(torch.mul(g, factor, out=product).sum(4), dim=2, out=part)
    real, imaginary = B[:, :, :, None, :, None]
    grad_M1 += torch.mul(g, real, out=product).sum((0, 1))
    grad_M1 -= rotate(torch.mul(g, imaginary, out=product).sum((0, 1)))


def _by_kernels(M1: Tensor) -> bool:
    return M1.shape[3] >= LANES and can_run(M1.dtype, M1.device.type)


def _words(B: Tensor, M1: Tensor, T: Tensor) -> list[int]:
    """What both kernels are told first, see there."""
    _, taps, low, high, _ = B.shape
    return [address(B[0]), address(M1), address(T), taps * low, high, M1.shape[2], low, B.stride(0)]
