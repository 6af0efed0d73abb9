"""K diag(L[:, j]) by kernels and by torch, against complex numbers and autograd."""

import pytest
import torch
from torch import Tensor

from xdops.engine import kernels
from xdops.engine.tap_products import products, products_back
from xdops.engine.workspace import Workspace

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def _given(rows: int, points: int, taps: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, rows, points, dtype=dtype), torch.randn(2, taps, points, dtype=dtype)


def _defined(K: Tensor, taps: Tensor) -> Tensor:
    """In complex numbers: (k, r, 2, n)."""
    product = torch.complex(*K) * torch.complex(*taps)[:, None]
    return torch.stack((product.real, -product.imag), dim=2)


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "points", "taps"), [(1, 1, 1), (5, 15, 2), (7, 16, 3), (40, 33, 6), (128, 132, 6)])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_and_gradients(rows: int, points: int, taps: int, dtype: torch.dtype, by_kernels: bool, threads: int) -> None:
    K, L = _given(rows + 3, points, taps, dtype)
    part, space, tolerance = slice(2, 2 + rows), Workspace(), TOLERANCE[dtype]
    grad_K, grad_taps = torch.full_like(K, torch.nan), torch.ones_like(L)
    of_K, of_L = K.clone().requires_grad_(), L.clone().requires_grad_()
    expected = _defined(of_K[:, part], of_L)
    g = torch.randn_like(expected)
    expected.backward(g)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with kernels.left_out() if not by_kernels else torch.no_grad():
            made = products(K, L, part, space)
            products_back(g.flatten(0, 1).flatten(1), K, L, part, grad_K, grad_taps, space)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(made.view_as(expected), expected, rtol=tolerance, atol=tolerance)
    assert of_K.grad is not None
    assert of_L.grad is not None
    torch.testing.assert_close(grad_K[:, part], of_K.grad[:, part], rtol=tolerance, atol=10 * tolerance)
    torch.testing.assert_close(grad_taps, of_L.grad + 1, rtol=tolerance, atol=10 * tolerance)
    assert grad_K[:, :2].isnan().all()  # rows of other blocks are theirs
    assert grad_K[:, part.stop :].isnan().all()
