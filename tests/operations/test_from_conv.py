"""from_conv equals the convolution at every output position, over the whole space of configurations."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_laws import TOLERANCE, agree
from torch import nn

from xdops import XDOperation
from xdops.errors import XDError

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
KERNELS = {1: 7, 2: 4, 3: 3}
EXTRA_LENGTH = {1: 30, 2: 9, 3: 4}
MODES = ["zeros", "circular", "reflect", "replicate"]
DOMAINS = ["full", "half"]
DEPTHS = [None, (1, 3, 1), (3, 3, 3)]


@dataclass(frozen=True)
class Case:
    layer: nn.Module
    size: tuple[int, ...]
    smaller: tuple[int, ...]
    options: dict[str, Any]
    dtype: torch.dtype


domains = st.sampled_from(DOMAINS)


@st.composite
def per_dim(draw, dims, low, high):
    return tuple(draw(st.integers(low, high)) for _ in range(dims))


@st.composite
def convolutions(draw, dims) -> Case:
    kernel, dilation = draw(per_dim(dims, 1, KERNELS[dims])), draw(per_dim(dims, 1, 3 if dims < 3 else 2))
    mode = draw(st.sampled_from(MODES))
    kind = draw(st.sampled_from(["numbers", "numbers", "same", "valid"]))
    stride = draw(per_dim(dims, 1, 3)) if kind != "same" else (1,) * dims
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    numbers = draw(per_dim(dims, 0, 4 if dims < 3 else 2))
    padding: Any = numbers if kind == "numbers" else kind
    sides = {"numbers": numbers, "same": [r - r // 2 for r in reach], "valid": [0] * dims}[kind]
    total = {"numbers": [2 * p for p in numbers], "same": reach, "valid": [0] * dims}[kind]
    least = [
        max(1, r + 1 - t, side + 1 if mode == "reflect" else side if mode == "circular" else 1)
        for r, t, side in zip(reach, total, sides, strict=True)
    ]
    case = _case(draw, CONV[dims], dims, least, (kernel, stride, padding, dilation), {"padding_mode": mode})
    if mode == "circular":  # an axis whose period is its size takes a shorter input only with its padding inside that size
        fits = [small + t <= m for small, t, m in zip(case.smaller, total, case.size, strict=True)]
        case = replace(case, smaller=tuple(s if fit else m for s, fit, m in zip(case.smaller, fits, case.size, strict=True)))
    return case


@st.composite
def transposed_convolutions(draw, dims) -> Case:
    kernel, dilation = draw(per_dim(dims, 1, KERNELS[dims])), draw(per_dim(dims, 1, 3 if dims < 3 else 2))
    stride = draw(per_dim(dims, 1, 3))
    padding = draw(per_dim(dims, 0, 3))
    output_padding = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    least = []
    for k, s, d, p, o in zip(kernel, stride, dilation, padding, output_padding, strict=True):
        m = 1
        while (m - 1) * s + d * (k - 1) - 2 * p + o + 1 < 1:
            m += 1
        least.append(m)
    extra = {"output_padding": output_padding, "dilation": dilation}
    return _case(draw, TRANSPOSED[dims], dims, least, (kernel, stride, padding), extra)


def _case(draw, kind, dims, least, geometry, extra) -> Case:
    size = tuple(m + draw(st.integers(0, EXTRA_LENGTH[dims])) for m in least)
    smaller = tuple(draw(st.integers(low, m)) for low, m in zip(least, size, strict=True))
    groups = draw(st.integers(1, 3))
    channels = [groups * draw(st.integers(1, 2)) for _ in range(2)]
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    torch.manual_seed(draw(st.integers(0, 1000)))
    layer = kind(*channels, *geometry, groups=groups, bias=draw(st.booleans()), dtype=dtype, **extra)
    presence = st.sampled_from(["absent", "fixed", "trained"])
    options = {"depth": draw(st.sampled_from(DEPTHS)), "b": draw(presence), "C": draw(presence), "domain": draw(domains)}
    return Case(layer, size, smaller, options, dtype)


def check(case: Case) -> None:
    op = XDOperation.from_conv(case.layer, case.size, **case.options)
    if case.options["depth"] is not None:
        assert op.depth == case.options["depth"]
    halved = case.options["domain"] == "half"
    assert op.domain == (*op.sizes[:-1], op.sizes[-1] // 2 if halved else op.sizes[-1])
    for size in {case.size, case.smaller}:
        x = torch.randn(2, case.layer.in_channels, *size, dtype=case.dtype)
        expected = case.layer(x)
        agree(op(x), expected, TOLERANCE[case.dtype])
        agree(op.evaluate(x, "staged"), expected, TOLERANCE[case.dtype])


@settings(max_examples=250)
@given(convolutions(1))
def test_any_convolution_in_one_dimension(case):
    check(case)


@settings(max_examples=180)
@given(convolutions(2))
def test_any_convolution_in_two_dimensions(case):
    check(case)


@settings(max_examples=80)
@given(convolutions(3))
def test_any_convolution_in_three_dimensions(case):
    check(case)


@settings(max_examples=80)
@given(transposed_convolutions(1))
def test_any_transposed_convolution_in_one_dimension(case):
    check(case)


@settings(max_examples=90)
@given(transposed_convolutions(2))
def test_any_transposed_convolution_in_two_dimensions(case):
    check(case)


@settings(max_examples=50)
@given(transposed_convolutions(3))
def test_any_transposed_convolution_in_three_dimensions(case):
    check(case)


@pytest.mark.parametrize("size", [5, 7, 31, 37, 64, 97, 100])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("domain", DOMAINS)
def test_odd_and_prime_lengths(size, mode, domain):
    for kernel, dilation in itertools.product((1, 2, 3, 5), (1, 2)):
        pad = min(2, size - 1)
        layer = nn.Conv1d(2, 3, kernel, padding=pad, dilation=dilation, padding_mode=mode, dtype=torch.float64)
        if size + 2 * pad > dilation * (kernel - 1):
            x = torch.randn(1, 2, size, dtype=torch.float64)
            agree(XDOperation.from_conv(layer, size, domain=domain)(x), layer(x), 1e-10)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_given_size_is_used_and_stays_exact(domain):
    layer = nn.Conv1d(2, 3, 3, padding=1, dtype=torch.float64)
    x = torch.randn(2, 2, 20, dtype=torch.float64)
    op = XDOperation.from_conv(layer, 20, size=34, domain=domain)
    assert op.sizes == (34,)
    agree(op(x), layer(x), 1e-10)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_papers_wrap_equals_the_convolution_away_from_the_boundary(dims):
    layer = CONV[dims](2, 3, 3, padding=1, dtype=torch.float64)
    x = torch.randn(2, 2, *(8,) * dims, dtype=torch.float64)
    op = XDOperation.from_conv(layer, (8,) * dims, boundary="wrap")
    inside = (..., *(slice(1, -1) for _ in range(dims)))
    assert op.sizes == (8,) * dims
    agree(op(x)[inside], layer(x)[inside], 1e-10)
    assert not torch.allclose(op(x), layer(x))
    circular = CONV[dims](2, 3, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    circular.load_state_dict(layer.state_dict())
    agree(op(x), circular(x), 1e-10)


@pytest.mark.parametrize("domain", ["full", "half"])
@pytest.mark.parametrize(
    ("rule", "mode", "m", "sizes"),
    [
        ("cheapest", "zeros", 132, {"full": 135, "half": 144}),
        ("smooth", "zeros", 132, {"full": 135, "half": 136}),
        ("power", "zeros", 132, {"full": 256, "half": 256}),
        ("power", "circular", 12, {"full": 16, "half": 16}),
        ("power", "circular", 16, {"full": 16, "half": 32}),
        ("smooth", "circular", 12, {"full": 12, "half": 16}),
    ],
)
def test_sizes_are_chosen_by_a_rule_and_the_layer_stays_what_it_is(rule, mode, m, sizes, domain):
    layer = nn.Conv1d(2, 3, 5, padding=2, padding_mode=mode, dtype=torch.float64)
    x = torch.randn(2, 2, m, dtype=torch.float64)
    op = XDOperation.from_conv(layer, m, size=rule, domain=domain)
    assert op.sizes == (sizes[domain],)
    with op.by_architecture():
        agree(op(x), layer(x), 1e-10)


def test_the_reference_wraps_at_a_power_of_two_which_zeros_fill_up():
    circular = nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    zeros = nn.Conv1d(2, 3, 3, padding=1, dtype=torch.float64)
    zeros.load_state_dict(circular.state_dict())
    for m, expected in ((13, zeros), (16, circular)):
        x = torch.randn(2, 2, m, dtype=torch.float64)
        op = XDOperation.from_conv(circular, m, size="power", boundary="wrap")
        assert op.sizes == (16,)
        agree(op(x), expected(x), 1e-10)


def test_the_depth_is_the_least_that_holds_the_layer():
    assert XDOperation.from_conv(nn.Conv1d(1, 1, 3), 16).depth == (1, 1, 1)
    assert XDOperation.from_conv(nn.Conv1d(1, 1, 3, dilation=2), 16).depth == (1, 3, 1)
    assert XDOperation.from_conv(nn.Conv1d(1, 1, 1, dilation=2), 16).depth == (1, 1, 1)
    assert XDOperation.from_conv(nn.ConvTranspose1d(1, 1, 3, stride=3), 16).depth == (1, 1, 1)
    assert XDOperation.from_conv(nn.Conv1d(1, 1, 3), 16, depth=2).depth == (2, 2, 2)


def test_too_little_depth_says_which_is_needed_and_why():
    with pytest.raises(XDError, match=r"at least \(1, 3, 1\).*permutation"):
        XDOperation.from_conv(nn.Conv1d(1, 1, 3, dilation=2), 16, depth=1)


def test_m_and_k_are_unitary_and_l_keeps_the_scale_of_the_filters():
    op = XDOperation.from_conv(nn.Conv1d(1, 1, 3, dtype=torch.float64), 16)
    eye = torch.eye(16, dtype=torch.complex128)
    for name in "KM":
        dense = op.matrix(name).to_dense()
        torch.testing.assert_close(dense @ dense.mH, eye)
    torch.testing.assert_close(op.matrix("L").to_dense().abs(), torch.ones(16, 16, dtype=torch.float64))


def test_the_operation_shares_the_weights_of_the_layer():
    layer = nn.Conv1d(2, 2, 3, padding=1)
    op = XDOperation.from_conv(layer, 10)
    assert op.weight is layer.weight
    assert op.bias is layer.bias


@pytest.mark.parametrize("domain", ["full", "half"])
@pytest.mark.parametrize(("kernel", "padding", "dilation"), [(3, 1, 1), (5, 2, 1), (3, 2, 2), (4, 1, 1), (3, 0, 1)])
@pytest.mark.parametrize("size", [8, 16, 31])
def test_an_input_longer_than_the_one_it_was_made_for_is_right_or_refused(kernel, padding, dilation, size, domain):
    conv = nn.Conv1d(2, 2, kernel, padding=padding, dilation=dilation, dtype=torch.float64)
    op = XDOperation.from_conv(conv, size, domain=domain)
    right = []
    for m in range(size - 2, size + 9):
        x = torch.randn(1, 2, m, dtype=torch.float64)
        try:
            given = op.evaluate(x, "dense")
        except XDError:
            assert m > size
            continue
        torch.testing.assert_close(given, conv(x), rtol=1e-10, atol=1e-10)
        right.append(m)
    assert {size - 2, size - 1, size} <= set(right)
