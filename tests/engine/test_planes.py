"""Two dimensions in one go, by kernels, against the definition: values and gradients of everything."""

import copy

import pytest
import torch
from torch import nn

from xdops import XDOperation
from xdops.engine import planes, spectrum

pytest.importorskip("numba")

#: A layer, its input (batch, channels, lengths...), and what is asked of the operation.
CASES = {
    "columns fill vectors": (nn.Conv2d(4, 8, 3, padding=1), (8, 4, 9, 11), {}),
    "columns do not fill vectors": (nn.Conv2d(5, 7, 3), (5, 5, 8, 13), {}),
    "several blocks of columns": (nn.Conv2d(3, 2, 3, padding=1), (43, 3, 6, 4), {}),
    "the full domain": (nn.Conv2d(4, 4, 3, padding=1), (9, 4, 7, 8), {"domain": "full"}),
    "depth 3": (nn.Conv2d(4, 4, 3, padding=1), (8, 4, 6, 9), {"depth": 3}),
    "depth 3 in the full domain": (nn.Conv2d(4, 4, 3, padding=1), (8, 4, 6, 9), {"depth": 3, "domain": "full"}),
    "strides": (nn.Conv2d(4, 4, (3, 2), stride=(3, 2), padding=1), (8, 4, 10, 9), {}),
    "spaced inputs": (nn.ConvTranspose2d(4, 4, 3, stride=(2, 3), padding=1), (9, 4, 5, 4), {}),
    "prime sizes": (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), (8, 4, 7, 13), {"domain": "full"}),
    "groups": (nn.Conv2d(8, 4, 3, groups=4), (6, 8, 6, 7), {}),
    "three dimensions": (nn.Conv3d(2, 3, 3, padding=1), (4, 2, 5, 6, 4), {}),
    "three dimensions, full": (nn.Conv3d(2, 3, 3, stride=2), (4, 2, 5, 6, 7), {"domain": "full"}),
}


@pytest.fixture(params=["fused", "tiled"])
def form(request):
    return request.param


@pytest.fixture(params=CASES, ids=str)
def moved(request, form):
    """The operation of a case with its architecture moved, and an input."""
    conv, shape, options = CASES[request.param]
    torch.manual_seed(0)
    op = XDOperation.from_conv(copy.deepcopy(conv), shape[2:], plan=form, **options).double()
    with torch.no_grad():
        for p in op.arch_parameters():
            p += 0.1 * torch.randn_like(p)
    return op, torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def made(monkeypatch):
    """The planes that are made while a test runs."""
    found = []

    class Counted(planes.Plane):
        def __init__(self, *args):
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(planes, "Plane", Counted)
    return found


def _gradients(y, tensors, g):
    return torch.autograd.grad(y, tensors, g)


def test_values_and_gradients_are_the_definitions(moved, made):
    op, x = moved
    tensors = [x, *op.parameters()]
    y, expected = op(x), op.evaluate(x, "staged")
    g = torch.randn_like(y)
    assert made
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
    for own, by_definition in zip(_gradients(y, tensors, g), _gradients(expected, tensors, g), strict=True):
        torch.testing.assert_close(own, by_definition, rtol=1e-10, atol=1e-10)


def test_in_float32(moved):
    op, x = moved
    expected = op.evaluate(x, "staged").detach()
    y = op.float()(x.float()).double()
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5 * float(expected.detach().abs().max()))


@pytest.mark.parametrize("wanted", ["input", "K", "M", "weight"])
def test_where_only_some_gradients_are_wanted_they_are_the_same(moved, wanted):
    op, x = moved
    own = {"input": [x], "weight": [op.weight], "K": list(op.K.parameters()), "M": list(op.M.parameters())}[wanted]
    y = op(x)
    g = torch.randn_like(y)
    expected = _gradients(y, own, g)
    for t in (x, *op.parameters()):
        t.requires_grad_(any(t is o for o in own))
    for found, grad in zip(_gradients(op(x), own, g), expected, strict=True):
        torch.testing.assert_close(found, grad, rtol=1e-10, atol=1e-10)


def test_what_was_not_kept_for_the_backward_pass_is_made_again(moved, monkeypatch):
    op, x = moved
    tensors, y = [x, *op.parameters()], op(x)
    g = torch.randn_like(y)
    expected = _gradients(y, tensors, g)
    monkeypatch.setattr(spectrum, "KEEP", 0)
    for found, grad in zip(_gradients(op(x), tensors, g), expected, strict=True):
        torch.testing.assert_close(found, grad, rtol=1e-10, atol=1e-10)


def test_planes_that_are_too_large_or_columns_too_few_go_one_dimension_after_the_other(moved, monkeypatch):
    op, x = moved
    expected = op(x)

    def alone(*args):
        raise AssertionError("a plane was made")

    monkeypatch.setattr(planes, "Plane", alone)
    monkeypatch.setattr(planes, "PLANE", 1)
    torch.testing.assert_close(op(x), expected, rtol=1e-10, atol=1e-10)
    monkeypatch.undo()
    monkeypatch.setattr(planes, "Plane", alone)
    monkeypatch.setattr(planes, "WIDTH", 1 << 20)
    torch.testing.assert_close(op(x), expected, rtol=1e-10, atol=1e-10)
