"""Dense matrices in compiled kernels, one dimension at a time, against complex products: values and gradients."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("numba")

from xdops import XDOperation
from xdops.engine.tiled import Tiled, TiledLayout
from xdops.engine.workspace import workspace

#: Points of the domain, numbers outside, columns: sizes that tiles, vectors and blocks fit, and that they do not.
SIZES = [(16, 16, 64), (9, 8, 37), (3, 2, 16), (40, 33, 100), (7, 13, 5), (1, 4, 20)]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def _made(shape: tuple[int, int], points: int, dtype: torch.dtype) -> tuple[Tiled, Tensor]:
    A = torch.randn(2, *shape, dtype=dtype)
    transform = TiledLayout(shape, points).transform([A], workspace(), True)
    assert isinstance(transform, Tiled)
    return transform, torch.complex(A[0], A[1])


def _check(found: Tensor, expected: Tensor) -> None:
    if expected.is_complex():
        expected = torch.stack((expected.real, expected.imag))
    assert float((found - expected).abs().max() / expected.abs().max()) < TOLERANCE[found.dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("points", "count", "columns"), SIZES)
@pytest.mark.parametrize("real", [True, False])
def test_rows_enter_the_domain(points: int, count: int, columns: int, real: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    transform, A = _made((points, count), points, dtype)
    x = torch.randn(*(() if real else (2,)), columns, count, dtype=dtype)
    seen = (x if real else torch.complex(x[0], x[1])).mT.to(A.dtype)
    _check(transform.enter(x), A @ seen)
    g, out = torch.randn(2, points, columns, dtype=dtype), torch.empty_like(x)
    transform.enter_backward(g, x, out)
    slope = torch.complex(g[0], g[1])
    back = (A.mH @ slope).mT
    _check(out, back.real if real else back)
    grad = transform.grads[0]
    assert grad is not None
    _check(grad, slope @ seen.mH)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("points", "count", "columns"), SIZES)
def test_rows_leave_the_domain(points: int, count: int, columns: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    transform, A = _made((count, points), points, dtype)
    y, out = torch.randn(2, points, columns, dtype=dtype), torch.empty(columns, count, dtype=dtype)
    seen = torch.complex(y[0], y[1])
    _check(transform.leave(y, out), (A @ seen).mT.real)
    g = torch.randn_like(out)
    _check(transform.leave_backward(g, y), A.mH @ g.mT.to(A.dtype))
    grad = transform.grads[0]
    assert grad is not None
    _check(grad, g.mT.to(A.dtype) @ seen.mH)


def test_under_autocast_matrices_keep_their_precision() -> None:
    torch.manual_seed(0)
    conv, x = torch.nn.Conv2d(4, 4, 3, padding=1, bias=False), torch.randn(8, 4, 9, 9)
    with torch.autocast("cpu", torch.bfloat16):
        tiled, fused = (XDOperation.from_conv(conv, (9, 9), depth=3, plan=plan)(x).float() for plan in ("tiled", "fused"))
    assert float((tiled - fused).norm() / fused.norm()) < 1e-3  # 4e-3 is what rounding the matrices does
