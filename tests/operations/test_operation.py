"""An XD-operation behaves as a torch module: state, dtypes, copies, gradients of any order, frozen parts."""

import copy

import pytest
import torch
from matrix_laws import agree
from torch import nn

from xdops import XDOperation, named
from xdops.errors import XDError
from xdops.matrices import random_gaussian
from xdops.operations import ARCHITECTURE, Axis


def everything(dtype=torch.float64) -> XDOperation:
    """All parts present and none special: two dimensions, mixed sizes, groups, stride, depth, b, C and bias."""
    axes = [Axis(6, stride=2), Axis(4, growth=-1)]
    return XDOperation(
        axes,
        torch.randn(4, 1, 3, 2, dtype=dtype),
        *([random_gaussian(a.size, d, dtype=dtype) for a in axes] for d in (2, 3, 1)),
        b=torch.randn(6, 4, 2, dtype=dtype),
        C=torch.randn(4, 1, 2, dtype=dtype),
        bias=torch.randn(4, dtype=dtype),
        groups=2,
    )


def test_a_state_dict_makes_the_same_operation_again():
    one, two = everything(), everything()
    x = torch.randn(3, 2, 6, 4, dtype=torch.float64)
    assert not torch.allclose(one(x), two(x))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))


def test_every_parameter_is_real():
    for op in (everything(), named.fno_complex(2, 2, 3, 8), named.average_pool(2, 2, 8)):
        assert all(p.dtype.is_floating_point for p in op.state_dict().values() if p.dtype != torch.long)


def test_a_state_dict_survives_a_file(tmp_path):
    op = named.fno_complex(2, 2, 3, 8)
    torch.save(op.state_dict(), tmp_path / "op.pt")
    other = named.fno_complex(2, 2, 3, 8)
    other.load_state_dict(torch.load(tmp_path / "op.pt", weights_only=True))
    x = torch.randn(1, 2, 8)
    assert torch.equal(op(x), other(x))


def test_double_precision_and_back_loses_nothing():
    op = everything(torch.float32)
    before = {name: value.clone() for name, value in op.state_dict().items()}
    op.to(torch.float64).to(torch.float32)
    assert all(torch.equal(value, before[name]) for name, value in op.state_dict().items())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_another_dtype_costs_nothing_but_precision(dtype, tolerance):
    conv = nn.Conv1d(3, 4, 3, padding=1)
    x = torch.randn(2, 3, 20)
    expected = conv(x)
    op = XDOperation.from_conv(conv, 20, b="trained", C="trained").copy().to(dtype)
    assert all(p.dtype == dtype for p in op.parameters())
    assert all(p.shape[-1] == 2 for _, p in op.architecture())
    y = op(x.to(dtype))
    assert y.dtype == dtype
    agree(y.float(), expected, tolerance)


def test_bfloat16_keeps_imaginary_parts():
    op = named.fno_complex(2, 2, 4, 8)
    x = torch.randn(1, 2, 8)
    agree(op.copy().to(torch.bfloat16)(x.bfloat16()).float(), op(x), 0.1)


def test_a_deep_copy_is_equal_and_apart():
    op = everything()
    other = copy.deepcopy(op)
    x = torch.randn(1, 2, 6, 4, dtype=torch.float64)
    assert torch.equal(op(x), other(x))
    assert other.trained == op.trained
    with torch.no_grad():
        other.weight.zero_()
    assert not torch.equal(op(x), other(x))


def _function_of_parameters(op, x):
    names, values = zip(*op.named_parameters(), strict=True)

    def function(x, *values):
        return torch.func.functional_call(op, dict(zip(names, values, strict=True)), (x,))

    return function, (x.requires_grad_(), *(v.detach().clone().requires_grad_() for v in values))


def test_gradients_of_every_parameter_and_of_the_input():
    function, arguments = _function_of_parameters(everything(), torch.randn(2, 2, 5, 4, dtype=torch.float64))
    assert torch.autograd.gradcheck(function, arguments, fast_mode=True)


def test_gradients_of_complex_filters():
    op = named.fno_complex(2, 3, 2, 4, dtype=torch.float64)
    function, arguments = _function_of_parameters(op, torch.randn(1, 2, 4, dtype=torch.float64))
    assert torch.autograd.gradcheck(function, arguments, fast_mode=True)


def test_second_derivatives():
    conv = nn.Conv1d(1, 1, 2, dtype=torch.float64)
    op = XDOperation.from_conv(conv, 4, b="trained", C="trained")
    function, arguments = _function_of_parameters(op, torch.randn(1, 1, 4, dtype=torch.float64))
    assert torch.autograd.gradgradcheck(function, arguments, fast_mode=True)


def test_the_gradient_of_the_filters_is_that_of_the_convolution():
    conv = nn.Conv2d(3, 4, 3, padding=1, stride=2, dtype=torch.float64)
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    conv(x).square().sum().backward()
    expected = [conv.weight.grad.clone(), conv.bias.grad.clone()]
    conv.zero_grad()
    XDOperation.from_conv(conv, (9, 8))(x).square().sum().backward()
    for given, want in zip((conv.weight.grad, conv.bias.grad), expected, strict=True):
        agree(given, want, 1e-10)


@pytest.mark.parametrize("name", ARCHITECTURE)
def test_each_part_can_be_frozen_and_released(name):
    op = everything()
    x = torch.randn(1, 2, 6, 4, dtype=torch.float64)
    op.freeze(name)
    op(x).sum().backward()
    for parameter_name, parameter in op.architecture():
        assert (parameter.grad is None) == (parameter_name.split(".")[0] == name)
    count = len(op.arch_parameters())
    op.unfreeze(name)
    assert len(op.arch_parameters()) > count
    op(x).sum().backward()
    assert all(p.grad is not None for p in op.arch_parameters())


def test_freezing_everything_leaves_the_weights():
    op = everything().freeze()
    assert op.arch_parameters() == []
    assert {id(p) for p in op.weight_parameters()} == {id(op.weight), id(op.bias)}
    assert all(p.requires_grad for p in op.weight_parameters())
    with pytest.raises(XDError, match="K, L, M, b, C"):
        op.freeze("kernel")


@pytest.mark.parametrize("presence", ["absent", "fixed", "trained"])
def test_b_and_c_are_absent_fixed_or_trained(presence):
    op = XDOperation.from_conv(nn.Conv1d(2, 2, 3), 8, b=presence, C=presence)
    for part in (op.b, op.C):
        assert (part is None) == (presence == "absent")
        assert part is None or part.requires_grad == (presence == "trained")
    assert ({"b", "C"} <= op.trained) == (presence == "trained")


def test_all_ways_to_evaluate_agree():
    op = everything()
    x = torch.randn(2, 2, 6, 3, dtype=torch.float64)
    agree(op(x), op.evaluate(x, "staged"), 1e-10)
    agree(op.evaluate(x, "dense"), op.evaluate(x, "staged"), 1e-10)


def test_it_says_what_it_is():
    text = repr(XDOperation.from_conv(nn.Conv2d(3, 8, 3), (8, 6)))
    assert "3 -> 8" in text
    assert "depth=(1, 1, 1)" in text


@pytest.mark.parametrize("conv", [nn.Conv1d(3, 4, 3, padding=2), nn.Conv1d(3, 4, 3, padding=4, dilation=2), nn.Conv1d(3, 4, 1)])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_the_last_output_alone_is_what_it_is_among_all(conv, steps):
    op = XDOperation.from_conv(conv.double(), 9, depth=(1, 3, 1))
    x = torch.randn(5, 3, steps, dtype=torch.float64, requires_grad=True)
    for _ in range(2):  # as the convolution, and moved away from it
        alone, among = op.last(x), op(x)[..., steps - 1 : steps]
        torch.testing.assert_close(alone, among, rtol=1e-10, atol=1e-10)
        leaves = [x, *op.parameters()]
        upstream = torch.randn_like(alone)
        for given, expected in zip(*(torch.autograd.grad(y, leaves, upstream) for y in (alone, among)), strict=True):
            torch.testing.assert_close(given, expected, rtol=1e-10, atol=1e-10)
        with torch.no_grad():
            for parameter in op.arch_parameters():
                parameter += 0.1 * torch.randn_like(parameter)


def test_the_last_output_of_a_layer_with_a_stride_or_fewer_outputs_is_cut_out():
    for conv in (nn.Conv1d(2, 2, 3, padding=5, stride=2), nn.Conv1d(2, 2, 3, padding=1, dilation=2)):
        op = XDOperation.from_conv(conv, 8)
        x = torch.randn(2, 2, 8)
        torch.testing.assert_close(op.last(x), conv(x)[..., 7:8])
