"""B_j M1 by kernels and by torch, against complex numbers and autograd."""

import pytest
import torch

from xdops.engine import kernels
from xdops.engine.digit_products import digit_products, digit_products_back
from xdops.engine.workspace import Workspace

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("taps", "low", "high", "inputs"), [(1, 3, 2, 1), (2, 8, 1, 3), (3, 16, 5, 2), (2, 27, 4, 6), (1, 30, 3, 5)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_products_and_gradients(taps: int, low: int, high: int, inputs: int, dtype: torch.dtype, by_kernels: bool, threads: int):
    torch.manual_seed(0)
    every = torch.randn(2, taps + 2, low, high, low, dtype=dtype)
    some, space, tolerance = slice(1, 1 + taps), Workspace(), TOLERANCE[dtype]
    B, M1 = every[:, some], torch.randn(2, high, inputs, low, dtype=dtype)
    grad_every, grad_M1 = torch.full_like(every, torch.nan), torch.ones_like(M1)
    of_B, of_M1 = B.clone().requires_grad_(), M1.clone().requires_grad_()
    product = torch.complex(*of_B)[:, :, :, None] * torch.complex(*of_M1)  # (taps, D, H, H_in, D)
    expected = torch.stack((product.real, product.imag), dim=2)
    g = torch.randn_like(expected)
    expected.backward(g)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with kernels.left_out() if not by_kernels else torch.no_grad():
            made = digit_products(B, M1, space)
            digit_products_back(g, B, M1, grad_every[:, some], grad_M1, space)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=tolerance)
    assert of_B.grad is not None
    assert of_M1.grad is not None
    torch.testing.assert_close(grad_every[:, some], of_B.grad, rtol=tolerance, atol=10 * tolerance)
    torch.testing.assert_close(grad_M1, of_M1.grad + 1, rtol=tolerance, atol=10 * tolerance)
    assert grad_every[:, 0].isnan().all()  # other taps are made at another time
    assert grad_every[:, -1].isnan().all()
