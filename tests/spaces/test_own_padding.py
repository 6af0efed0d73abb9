"""Where torch's own padding sees the windows of an edge, no padded copy is made, and nothing else changes."""

import itertools

import pytest
import torch
from torch import Tensor

from xdops.spaces import edge as edges
from xdops.spaces.edge import DartsEdge
from xdops.spaces.grid import GridAxis, own_padding

GRIDS = [GridAxis(*grid) for grid in itertools.product((1, 2, 3), (-1, 0, 1), (-2, -1, 0), (False, True))]


def outputs(edge: DartsEdge, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    y = edge(x)
    (gradient,) = torch.autograd.grad((y**2).sum(), x)
    return y, gradient


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("dims", [1, 2])
def test_the_outputs_are_those_of_a_padded_copy(monkeypatch, dims, count_include_pad, causal):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *(8, 9)[:dims], dtype=torch.float64)
    for axis in GRIDS:
        edge = DartsEdge(
            (axis,) * dims,
            torch.randn(3, 3, *(5,) * dims, dtype=torch.float64),
            None,
            groups=1,
            padding_mode="zeros",
            count_include_pad=count_include_pad,
            causal=causal,
            mixture=torch.full((8,), 1 / 8),
        ).double()
        found = outputs(edge, x)
        with monkeypatch.context() as patch:
            patch.setattr(edges, "own_padding", lambda *_: None)
            copied = outputs(edge, x)
        torch.testing.assert_close(found, copied, rtol=1e-10, atol=1e-10)


def test_a_layer_that_keeps_its_grid_is_padded_by_torch_itself():
    x = torch.zeros(1, 1, 8, 8)
    same = (GridAxis(stride=1, place=0, growth=-1),) * 2
    assert own_padding(x, same, 5, 2, causal=False) == (4, 4)
    assert own_padding(x, (GridAxis(stride=2, place=0, growth=-1),) * 2, 3, 1, causal=False) == (1, 1)


def test_what_looks_back_alone_or_is_cut_needs_a_copy():
    x = torch.zeros(1, 1, 8)
    assert own_padding(x, (GridAxis(stride=1, place=0, growth=-1),), 5, 1, causal=True) is None
    assert own_padding(x, (GridAxis(stride=1, place=3, growth=-4),), 3, 1, causal=False) is None
