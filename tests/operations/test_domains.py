"""The half domain: half the points and parameters, the same layers, by the definition and by every way to ask for it."""

import itertools

import pytest
import torch
from matrix_laws import agree
from torch import nn

from xdops import XDOperation, named, nearest_named
from xdops.errors import XDError
from xdops.matrices import cheapest_size
from xdops.operations import distance
from xdops.operations.domains import fourier_in, fourier_matrix, half_turns
from xdops.operations.warmstart import domain_points

DOUBLE = torch.float64


@pytest.mark.parametrize("n", [2, 4, 10, 24, 36])
def test_every_row_of_m_makes_an_odd_number_of_half_turns_and_none_is_the_conjugate_of_another(n):
    turns = half_turns(fourier_matrix(n, half=True).radices, half=True)
    t = torch.arange(n, dtype=DOUBLE)
    agree(fourier_matrix(n, half=True).to_dense(), torch.exp(-1j * torch.pi * turns.double()[:, None] * t / n), 1e-10)
    both = torch.cat((turns, 2 * n - turns))
    assert sorted(both.tolist()) == list(range(1, 2 * n, 2))


@pytest.mark.parametrize("n", [4, 30, 64])
def test_m_keeps_the_norm_of_real_signals_and_its_factors_share_the_scale(n):
    M = fourier_in(n, half=True)
    dense = M.to_dense()
    agree((dense.mH @ dense).real, torch.eye(n, dtype=DOUBLE), 1e-10)
    whole = fourier_in(n, radices=M.radices)
    for half, full in zip(M.butterflies[0].factors, whole.butterflies[0].factors, strict=True):
        ratio = half.abs() / full.abs().flatten()[0]
        agree(ratio, torch.full_like(ratio, 2 ** (0.5 / len(M.radices))), 1e-10)


def test_half_the_domain_has_half_the_points_and_half_the_numbers_in_its_outer_butterflies():
    conv = nn.Conv2d(2, 3, 3, padding=1)
    full, half = (XDOperation.from_conv(conv, (15, 15), depth=3, b="trained", domain=d) for d in ("full", "half"))
    assert full.sizes == half.sizes == (16, 16)
    assert half.domain == (16, 8)
    assert half.b.numel() * 2 == full.b.numel()
    for name, outer in (("K", 0), ("L", 2), ("M", 2)):
        one, two = (getattr(op, name)[-1].values for op in (full, half))
        assert [v.numel() for v in two] == [v.numel() // (2 if i == outer else 1) for i, v in enumerate(one)]


SIZES = [(130, False, 135), (130, True, 144), (17, False, 18), (1, True, 2), (272, True, 288)]


@pytest.mark.parametrize(("at_least", "even", "n"), SIZES)
def test_the_size_is_that_whose_butterflies_cost_least(at_least, even, n):
    def cost(n: int) -> int:
        primes = [p for p in range(2, n + 1) for e in range(1, 12) if n % p**e == 0 and all(p % q for q in range(2, p))]
        return n * sum(primes) if not primes or max(primes) <= 17 else 10**9

    found = cheapest_size(at_least, even)
    assert found == n
    assert cost(found) == min(cost(c) for c in range(max(2, at_least), 2 * at_least + 2) if not (even and c % 2))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
@pytest.mark.parametrize("dims", [1, 2])
def test_the_papers_wrap_is_circular_in_half_a_domain_too(mode, dims):
    make = (nn.Conv1d, nn.Conv2d)[dims - 1]
    layer = make(2, 3, 3, padding=1, padding_mode=mode, stride=2, dtype=DOUBLE)
    circular = make(2, 3, 3, padding=1, padding_mode="circular", stride=2, dtype=DOUBLE)
    circular.load_state_dict(layer.state_dict())
    x = torch.randn(2, 2, *(8,) * dims, dtype=DOUBLE)
    agree(XDOperation.from_conv(layer, (8,) * dims, boundary="wrap", domain="half")(x), circular(x), 1e-10)


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("depth", [None, 3])
def test_causal_layers(kernel, depth):
    conv = nn.Conv1d(2, 3, kernel, padding=2 * (kernel - 1), dilation=2, dtype=DOUBLE)
    x = torch.randn(2, 2, 13, dtype=DOUBLE, requires_grad=True)
    op = XDOperation.from_conv(conv, 13, causal=True, depth=depth, domain="half")
    agree(op(x), conv(x), 1e-10)
    for p in op.arch_parameters():
        p.data += torch.randn_like(p)
    op(x)[:, :, 6].square().sum().backward()
    assert x.grad[:, :, 7:].abs().max() == 0
    assert x.grad[:, :, :7].abs().min() > 0


def layers_of_one_shape(domain, channels=2, size=(5, 9)):
    yield named.convolution(channels, channels, 3, size, padding=1, groups=2, dtype=DOUBLE, domain=domain)
    yield named.skip(channels, size, dtype=DOUBLE, domain=domain)
    yield named.zero(channels, size, dtype=DOUBLE, domain=domain)
    yield named.average_pool(channels, 3, size, stride=2, padding=1, count_include_pad=False, dtype=DOUBLE, domain=domain)
    yield named.average_pool(channels, 2, size, ceil_mode=True, dilation=2, dtype=DOUBLE, domain=domain)


def test_named_operations_are_the_same_in_both_domains():
    x = torch.randn(2, 2, 5, 9, dtype=DOUBLE)
    for full, half in zip(layers_of_one_shape("full"), layers_of_one_shape("half"), strict=True):
        half.weight.data = full.weight.data
        agree(half(x), full(x), 1e-10)
        assert distance(half, full, (5, 9)).operator == pytest.approx(0, abs=1e-10)
        assert distance(half, full, (5, 9)).architecture is None


def test_the_nearest_named_operation_is_found_in_half_a_domain():
    for op, name in (
        (XDOperation.from_conv(nn.Conv2d(2, 2, 3, padding=1), (6, 9), domain="half"), "convolution 3x3"),
        (XDOperation.from_conv(nn.Conv1d(2, 2, 3, padding=2, dilation=2), 9, domain="half", depth=3), "convolution 3, dilation 2"),
        (named.average_pool(2, 3, 12, stride=1, domain="half"), "average pool 3"),
        (named.skip(2, (5, 6), domain="half"), "skip"),
    ):
        (nearest,) = nearest_named(op, 1)
        assert nearest.name == name
        assert nearest.distance.operator < 1e-5
        assert nearest.op.domain == op.domain


def arbitrary(complex_weight: bool) -> XDOperation:
    """No layer at all: two dimensions, depth 3, groups, stride, b, C and bias, random numbers everywhere."""
    conv = nn.Conv2d(2, 4, (2, 3), padding=1, stride=(1, 2), groups=2, dtype=DOUBLE)
    op = XDOperation.from_conv(conv, (4, 6), depth=3, b="trained", C="trained", domain="half")
    for _, p in op.architecture():
        p.data = torch.randn_like(p) / 2
    if not complex_weight:
        return op
    weight = torch.randn(4, 1, 2, 3, 2, dtype=DOUBLE)
    parts = {name: list(op.matrix(name).matrices) for name in "KLM"}
    return XDOperation(op.axes, weight, **parts, b=op.b, C=op.C, bias=op.bias, groups=2, complex_weight=True)


@pytest.mark.parametrize("complex_weight", [False, True])
def test_an_operation_learned_in_half_a_domain_is_definition_3_1_with_zeros_in_the_other_rows_of_l(complex_weight):
    op = arbitrary(complex_weight)
    x = torch.randn(2, 2, 4, 6, dtype=DOUBLE)
    M, L, K = (dense_whole(op, name) for name in "MLK")
    rows = [range(0, a.out(m) * a.stride, a.stride) for a, m in zip(op.axes, (4, 6), strict=True)]
    filters = torch.view_as_complex(op.weight.data) if complex_weight else op.weight.data.to(torch.complex128)
    b = torch.nn.functional.pad(torch.view_as_complex(op.b.data), (0, op.domain[1]))
    expected = torch.zeros(2, 4, *map(len, rows), dtype=DOUBLE)
    for o, image in itertools.product(range(4), range(2)):
        seen = M[0][:, :4] @ x[image, o // 2].to(torch.complex128) @ M[1][:, :6].T
        filtered = L[0][:, :2] @ filters[o, 0] @ L[1][:, :3].T + b
        y = K[0] @ (torch.view_as_complex(op.C.data)[o, 0] * filtered * seen) @ K[1].T
        expected[image, o] = y.real[rows[0]][:, rows[1]] + op.bias.data[o]
    for given in (op(x), op.evaluate(x, "staged"), op.evaluate(x, "dense")):
        agree(given, expected, 1e-10)


def dense_whole(op: XDOperation, name: str) -> list[torch.Tensor]:
    """Square matrices: of L zeros below the half, of M and K anything in the other rows and columns."""
    whole = []
    for half in (m.to_dense().detach() for m in op.matrix(name).matrices):
        other = torch.zeros_like(half) if name == "L" else torch.randn_like(half)
        square = half.shape[0] == half.shape[1]
        whole.append(half if square else torch.cat((half, other), dim=1 if name == "K" else 0))
    return whole


def test_gradients_of_every_parameter_and_of_the_input():
    op = arbitrary(False)
    names, values = zip(*op.named_parameters(), strict=True)

    def function(x, *values):
        return torch.func.functional_call(op, dict(zip(names, values, strict=True)), (x,))

    x = torch.randn(2, 2, 4, 5, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x, *(v.detach().clone().requires_grad_() for v in values)), fast_mode=True)


def test_bad_domains_are_refused():
    conv = nn.Conv1d(2, 2, 3)
    for options, message in (({"domain": "quarter"}, "quarter"), ({"domain": "half", "size": 17}, "an even number")):
        with pytest.raises(XDError, match=message):
            XDOperation.from_conv(conv, 12, **options)
    op = XDOperation.from_conv(conv, 12, domain="half")
    M = op.matrix("M").matrices
    with pytest.raises(XDError, match="one domain"):
        XDOperation(op.axes, conv.weight, M, op.matrix("L").matrices, M)
    assert "domain=(6,)" in repr(op)
    assert domain_points(op.axes, "half") == (6,)
