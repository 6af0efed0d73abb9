"""Which named operations a shift-invariant operation holds."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xdops.operations.catalogue.windows import (
    shift_invariant_average_pool,
    shift_invariant_convolution,
    shift_invariant_skip,
)


@pytest.mark.parametrize("dilation", [1, 2, 5, 7])
def test_it_holds_convolutions_of_any_dilation_within_its_window(dilation):
    op = shift_invariant_convolution(2, 3, (3,), 16, dilation=dilation, padding=dilation).double()
    x = torch.randn(2, 2, 30, dtype=torch.float64)
    expected = F.conv1d(x, op.weight, padding=dilation, dilation=dilation)
    op.plan = "filter"
    torch.testing.assert_close(op(x), expected, rtol=1e-6, atol=1e-6)
    assert op.sizes == (16,)
    assert op.depth == ((1, 1, 1) if dilation == 1 else (1, 3, 1))


@pytest.mark.parametrize(("kernel", "pool"), [((3,), nn.AvgPool1d), ((2, 3), nn.AvgPool2d), ((2, 2, 2), nn.AvgPool3d)])
def test_it_holds_average_pools(kernel, pool):
    op = shift_invariant_average_pool(3, kernel, 4, stride=2, padding=1)
    x = torch.randn(2, 3, *(7,) * len(kernel))
    torch.testing.assert_close(op(x), pool(kernel, 2, 1)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_it_holds_skips(dims):
    x = torch.randn(2, 3, *(6,) * dims)
    torch.testing.assert_close(shift_invariant_skip(3, dims, 4)(x), x, rtol=1e-5, atol=1e-5)


def test_it_holds_no_permutation_but_a_shift():
    """Moving an input moves the output, whatever its architecture is: a permutation of positions does not do that."""
    op = shift_invariant_convolution(1, 1, (3,), 8, padding=1)
    with torch.no_grad():
        for _, p in op.architecture():
            p.copy_(torch.randn_like(p))
        x = torch.zeros(1, 1, 40)
        x[..., 15:20] = torch.randn(5)
        torch.testing.assert_close(op(x.roll(3, -1)), op(x).roll(3, -1), rtol=1e-4, atol=1e-4)
