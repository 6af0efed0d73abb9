"""Circular padding is torch's own, in values and gradients of any order, and under its tools."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xdops.engine.geometry import Line
from xdops.engine.wrapping import wrap


def wrapped(x: Tensor, amounts: list[tuple[int, int]]) -> Tensor:
    return wrap(x, [Line(m + sum(p), pad=p) for m, p in zip(x.shape[2:], amounts, strict=True)])


def theirs(x: Tensor, amounts: list[tuple[int, int]]) -> Tensor:
    return F.pad(x, [p for pair in reversed(amounts) for p in pair], mode="circular")


@st.composite
def padded(draw) -> tuple[Tensor, list[tuple[int, int]]]:
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    amounts = [(draw(st.integers(0, m)), draw(st.integers(0, m))) for m in shape]
    x = torch.randn(draw(st.integers(1, 2)), 2, *shape, dtype=torch.float64)
    return (x.transpose(2, -1).contiguous().transpose(2, -1) if draw(st.booleans()) else x).requires_grad_(), amounts


@given(padded())
def test_it_pads_as_torch_does_in_values_and_gradients(case: tuple[Tensor, list[tuple[int, int]]]) -> None:
    x, amounts = case
    own, expected = wrapped(x, amounts), theirs(x, amounts)
    assert torch.equal(own, expected)
    weights = torch.randn_like(own)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), x) for y in (own, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_second_derivatives_and_torch_func_see_through_it() -> None:
    x = torch.randn(2, 1, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: wrapped(x, [(2, 3)]).pow(3), x)
    each = torch.func.vmap(torch.func.grad(lambda x: wrapped(x[None], [(1, 4)]).pow(2).sum()))(x.detach())
    torch.testing.assert_close(each, torch.func.vmap(torch.func.grad(lambda x: theirs(x[None], [(1, 4)]).pow(2).sum()))(x.detach()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_other_precisions_are_copied_as_they_are(dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 4, 3).to(dtype)
    assert torch.equal(wrapped(x, [(1, 2), (3, 0)]), theirs(x, [(1, 2), (3, 0)]))
