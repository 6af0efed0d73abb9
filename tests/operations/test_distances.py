"""Distances between operations, and the named ones nearest to an operation."""

import math
import sys

import pytest
import torch
from torch import nn

from xdops import XDOperation, distance, named, nearest_named
from xdops.errors import XDError
from xdops.operations.catalogue.fourier import SpectralConv, from_spectral_conv


def dense_operator(op: XDOperation, size: int) -> torch.Tensor:
    basis = torch.eye(op.in_channels * size, dtype=torch.float64).view(-1, op.in_channels, size)
    bias = 0 if op.bias is None else op.bias.double()[:, None]
    return (op.copy().double()(basis) - bias).flatten(1).T.detach()


def test_an_operation_is_at_no_distance_from_itself():
    op = XDOperation.from_conv(nn.Conv1d(3, 3, 3, padding=1), 20)
    found = distance(op, op.copy())
    assert (found.architecture, found.operator, found.exact) == (0.0, 0.0, True)


def test_the_operator_distance_is_that_of_the_dense_operators_of_equal_weights():
    conv = nn.Conv1d(2, 2, 3, padding=1)
    op, skip = XDOperation.from_conv(conv, 16, size=18), named.skip(2, 16)
    a, b = dense_operator(op, 16), dense_operator(skip, 16)
    assert distance(op, skip, [16]).operator == pytest.approx(float((a - b).norm() / b.norm()), rel=1e-6)


def test_other_weights_of_the_same_operation_make_no_distance():
    one, two = (XDOperation.from_conv(nn.Conv1d(2, 4, 3, padding=1), 16) for _ in range(2))
    assert not torch.equal(one.weight, two.weight)
    assert distance(one, two).operator == 0


def test_the_architecture_distance_is_relative_to_the_reference():
    op = XDOperation.from_conv(nn.Conv1d(2, 2, 3), 16)
    moved = op.copy()
    for parameter in moved.arch_parameters():
        parameter.data *= 1.5
    found = distance(moved, op)
    assert found.architecture is not None
    gates = 2 * 2  # C is absent in both, and counts as 1
    own = sum(float(p.detach().square().sum()) for p in op.arch_parameters())
    assert found.architecture == pytest.approx(0.5 * math.sqrt(own / (own + gates)))
    factors = 3 * 4  # n = 16 has four in each of K, L, M
    assert found.operator == pytest.approx(1.5**factors - 1, rel=1e-5)


def test_architectures_of_different_depth_are_not_comparable_but_their_operators_are():
    conv = nn.Conv1d(2, 2, 3, padding=1)
    found = distance(XDOperation.from_conv(conv, 16), XDOperation.from_conv(conv, 16, depth=3))
    assert found.architecture is None
    assert found.operator < 1e-6


def test_large_operators_are_sampled_reproducibly_and_close_to_the_truth(monkeypatch):
    op = XDOperation.from_conv(nn.Conv1d(4, 8, 3, padding=1), 60)
    other = op.copy()
    for parameter in other.arch_parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    exact = distance(other, op)
    assert exact.exact
    monkeypatch.setattr(sys.modules["xdops.operations.distances.measure"], "EXACT_UP_TO", 100)
    sampled = distance(other, op)
    assert not sampled.exact
    assert sampled == distance(other, op)
    assert sampled.operator == pytest.approx(exact.operator, rel=0.1)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (lambda: XDOperation.from_conv(nn.Conv2d(3, 3, 3, padding=1), (8, 6)), "convolution 3x3"),
        (lambda: XDOperation.from_conv(nn.Conv1d(3, 3, 3, padding=2, dilation=2), 12), "convolution 3, dilation 2"),
        (lambda: XDOperation.from_conv(nn.Conv1d(3, 4, 5, 2, padding=2, padding_mode="reflect"), 30, depth=3), "convolution 5"),
        (lambda: XDOperation.from_conv(nn.ConvTranspose1d(3, 3, 4, stride=2, padding=1), 15), "convolution 4"),
        (lambda: XDOperation.from_conv(nn.Conv1d(4, 4, 3, padding=1, groups=2), 15), "convolution 3"),
        (lambda: named.average_pool(3, 3, 12, 1, padding=1, kernel_size=3), "average pool 3"),
        (lambda: named.skip(3, 12, kernel_size=3), "skip"),
        (lambda: named.zero(3, 12, kernel_size=3), "zero"),
        (lambda: named.fno(3, 3, 2, 16), "fno, 2 modes"),
        (lambda: named.fno_complex(3, 3, 4, 16), "fno, 4 modes"),
        (lambda: from_spectral_conv(SpectralConv(3, 3, (4,)), 16), "spectral convolution, 4 modes"),
        (lambda: from_spectral_conv(SpectralConv(2, 2, (3, 2)), (19, 12)), "spectral convolution, 3x2 modes"),
    ],
)  # fmt: skip
def test_every_named_operation_is_its_own_nearest(op, name):
    found = nearest_named(op())
    assert found[0].name == name
    assert found[0].distance.operator < 1e-5
    distances = [n.distance.operator for n in found]
    assert distances == sorted(distances)
    assert len(nearest_named(op(), 2)) == 2


def test_a_perturbed_convolution_is_still_nearest_to_a_convolution():
    op = XDOperation.from_conv(nn.Conv1d(3, 3, 3, padding=1), 16, b="trained", C="trained")
    for parameter in op.arch_parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    first = nearest_named(op)[0]
    assert first.name == "convolution 3"
    assert 0 < first.distance.operator < 0.5
    assert first.distance.architecture is not None
    assert 0 < first.distance.architecture < 0.2


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (lambda: named.skip(2, 8), lambda: named.skip(3, 8), "channels"),
        (lambda: named.skip(2, 8), lambda: named.skip(2, (8, 8)), "dimensions"),
        (lambda: named.skip(2, 8), lambda: named.fno_complex(2, 2, 2, 8), "complex filters"),
    ],
)
def test_operations_of_different_kinds_are_refused(a, b, message):
    with pytest.raises(XDError, match=message):
        distance(a(), b())
