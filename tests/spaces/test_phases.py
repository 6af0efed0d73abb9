"""Dilation 2 by phases is torch's own dilated convolution, values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from xdops.spaces.phases import conv_dilated_by_2

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sizes", [(16,), (17,), (16, 20), (16, 19), (16, 16, 18)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 3, 4])
def test_phases_are_the_dilated_convolution(sizes, stride, padding, groups):
    torch.manual_seed(0)
    dims = len(sizes)
    x = torch.randn(2, 4, *sizes, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(6, 4 // groups, *(5,) * dims, dtype=torch.float64, requires_grad=True)
    strides, paddings = (stride,) * dims, (padding,) * dims
    found = conv_dilated_by_2(CONV[dims], x, kernel, strides, paddings, groups)
    expected = CONV[dims](x, kernel, None, strides, paddings, 2, groups)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    gradients = [torch.autograd.grad((y**2).sum(), (x, kernel)) for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_a_batch_of_none():
    y = conv_dilated_by_2(F.conv2d, torch.zeros(0, 2, 16, 16), torch.zeros(3, 2, 5, 5), (1, 1), (4, 4), 1)
    assert y.shape == (0, 3, 16, 16)
