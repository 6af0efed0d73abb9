"""Dilation 2 by phases is torch's own dilated convolution, values and gradients, and nobody who watches an edge sees it."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from xdops.errors import XDError
from xdops.spaces import darts_
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


@pytest.fixture
def edge():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1)).double()
    darts_(network, torch.randn(1, 3, 16, 16, dtype=torch.float64))
    return network


def test_function_transforms_see_ordinary_steps(edge):
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    one_by_one = torch.func.vmap(lambda example: edge(example[None])[0])(x)
    torch.testing.assert_close(one_by_one, edge(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [16, 33, 7])
def test_a_trace_and_an_exported_program_take_other_sizes(edge, size):
    x = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    side = {2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a trace warns of everything that it makes a constant
        trace = torch.jit.trace(edge, x)
    program = torch.export.export(edge, (x,), dynamic_shapes=(side,)).module()
    other = torch.randn(1, 3, size, size, dtype=torch.float64)
    for found in (trace(other), program(other)):
        torch.testing.assert_close(found, edge(other), rtol=1e-10, atol=1e-10)


def test_an_example_without_a_batch_is_refused(edge):
    with pytest.raises(XDError, match=r"x\[None\]"):
        edge(torch.zeros(3, 16, 16, dtype=torch.float64))
