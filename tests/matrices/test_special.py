"""The constructors are exact: Fourier, permutation, sparse and the rest, for powers of two and for mixed radices."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_laws import agree

from xdops.matrices import (
    default_radices,
    dft,
    diagonal,
    digit_reversal,
    identity,
    inverse_dft,
    permutation,
    plan_matrix,
    smooth_size,
    sparse,
    zero,
)
from xdops.matrices.special import Norm

NORMS: list[Norm] = ["backward", "ortho", "forward"]
DOUBLE = torch.float64


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 16, 34, 49, 64, 85, 100, 784, 1000])
@pytest.mark.parametrize("norm", NORMS)
def test_dft_is_that_of_torch(n, norm):
    x = torch.randn(2, n, dtype=DOUBLE)
    agree(dft(n, norm=norm, dtype=DOUBLE).apply(x), torch.fft.fft(x, norm=norm), 1e-10)
    agree(inverse_dft(n, norm=norm, dtype=DOUBLE).apply(x), torch.fft.ifft(x, norm=norm), 1e-10)


@pytest.mark.parametrize("radices", [(2, 2, 2), (4, 4), (2, 17), (17, 2), (5, 2, 3), (4, 2)])
def test_reversed_dft_has_depth_one_and_frequencies_in_digit_reversed_order(radices):
    n = torch.tensor(radices).prod().item()
    matrix = dft(n, radices, order="reversed", dtype=DOUBLE)
    x = torch.randn(n, dtype=DOUBLE)
    assert matrix.depth == 1
    agree(matrix.apply(x), torch.fft.fft(x)[digit_reversal(radices)], 1e-10)
    agree(inverse_dft(n, radices, order="reversed", dtype=DOUBLE).apply(matrix.apply(x)), x.to(torch.complex128), 1e-10)


@pytest.mark.parametrize("norm", NORMS)
def test_the_scale_of_a_dft_is_spread_evenly_over_its_factors(norm):
    exponent = {"backward": 0, "ortho": 0.5, "forward": 1}[norm]
    (butterfly,) = dft(20, order="reversed", norm=norm, dtype=DOUBLE).butterflies
    for factor, r in zip(butterfly.factors, butterfly.radices, strict=True):
        torch.testing.assert_close(factor.abs(), torch.full_like(factor.abs(), r**-exponent))


def test_identity_zero_and_diagonal():
    x = torch.randn(18, dtype=DOUBLE)
    d = torch.randn(18, dtype=torch.complex128)
    for depth in (1, 2, 3):
        for first in ("increasing", "decreasing"):
            matrix = identity(18, depth, first=first, dtype=DOUBLE)
            assert matrix.depth == depth
            assert matrix.butterflies[0].increasing == (first == "increasing")
            assert torch.equal(matrix.to_dense(), torch.eye(18, dtype=torch.complex128))
        assert not zero(18, depth, dtype=DOUBLE).to_dense().any()
    agree(diagonal(d, dtype=DOUBLE).apply(x), d * x, 1e-14)
    assert diagonal(d).depth == 1


def test_a_zero_matrix_can_learn_to_be_something_else():
    matrix = zero(8, 2, dtype=DOUBLE)
    leaves = [b.values.clone().requires_grad_() for b in matrix.butterflies]
    rebuilt = type(matrix)([type(b)(v, b.radices, b.increasing) for b, v in zip(matrix.butterflies, leaves, strict=True)])
    rebuilt.to_dense().real.sum().backward()
    assert any(leaf.grad is not None and leaf.grad.abs().max() > 0 for leaf in leaves)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("first", ["increasing", "decreasing"])
def test_every_permutation_of_a_small_size_is_routed(n, first):
    for order in itertools.permutations(range(n)):
        matrix = permutation(order, first=first, dtype=DOUBLE)
        assert torch.equal(matrix.to_dense().real, torch.eye(n, dtype=DOUBLE)[list(order)])
        assert matrix.depth == 2


@pytest.mark.parametrize("radices", [(2, 3), (3, 2), (2, 2, 2)])
def test_permutations_of_mixed_radices_are_routed(radices):
    n = torch.tensor(radices).prod().item()
    for order in itertools.islice(itertools.permutations(range(n)), 0, None, 97 if n > 6 else 7):
        assert torch.equal(permutation(order, radices, dtype=DOUBLE).to_dense().real, torch.eye(n, dtype=DOUBLE)[list(order)])


@settings(max_examples=60)
@given(data=st.data(), radices=st.sampled_from([(2,) * 5, (4, 4, 4), (2, 17), (5, 17), (3, 2, 5), (7, 2, 3), (2, 2, 3, 5, 3)]))
def test_any_permutation_is_routed(data, radices):
    n = torch.tensor(radices).prod().item()
    order = data.draw(st.permutations(range(n)))
    first = data.draw(st.sampled_from(["increasing", "decreasing"]))
    matrix = permutation(order, radices, first, dtype=DOUBLE)
    x = torch.arange(n, dtype=DOUBLE)
    assert torch.equal(matrix.apply(x, plan="staged").real, x[torch.tensor(order)])
    assert [b.increasing for b in matrix.butterflies] == [first == "increasing", first != "increasing"]
    for butterfly in matrix.butterflies:
        assert set(butterfly.values.unique().tolist()) <= {0.0, 1.0}


@settings(max_examples=80)
@given(data=st.data(), n=st.sampled_from([1, 2, 4, 6, 8, 9, 15, 16, 34, 64]))
def test_any_matrix_with_at_most_n_nonzeros_has_depth_four(data, n):
    cells = data.draw(st.lists(st.integers(0, n * n - 1), max_size=n, unique=True))
    matrix = torch.zeros(n * n, dtype=torch.complex128)
    matrix[cells] = torch.randn(len(cells), dtype=torch.complex128)
    matrix = matrix.view(n, n)
    found = sparse(matrix, dtype=DOUBLE)
    assert found.depth == 4
    agree(found.to_dense(), matrix, 1e-12)
    directions = [b.increasing for b in found.butterflies]
    assert directions in ([False, True, False, True], [True, False, True, False])


@pytest.mark.parametrize("n", [8, 16, 34, 85])
def test_one_full_row_or_column_is_sparse(n):
    for matrix in (
        torch.zeros(n, n).index_fill(0, torch.tensor([n // 2]), 1),
        torch.zeros(n, n).index_fill(1, torch.tensor([1]), 2),
    ):
        found = sparse(matrix.double(), dtype=DOUBLE)
        agree(found.to_dense(), matrix.to(torch.complex128), 1e-12)
        assert found.radices == default_radices(n)


def test_sparse_takes_sparse_tensors_and_nearly_always_keeps_the_radices_given_room():
    kept = 0
    for _ in range(50):
        cells = torch.randperm(64 * 64)[:48]
        matrix = torch.sparse_coo_tensor(
            torch.stack((cells // 64, cells % 64)), torch.randn(48, dtype=DOUBLE), (64, 64), check_invariants=True
        )
        found = sparse(matrix, dtype=DOUBLE)
        agree(found.to_dense(), matrix.to_dense().to(torch.complex128), 1e-12)
        kept += found.radices == (2,) * 6
    assert kept >= 45


def test_radices_are_all_two_for_powers_of_two_and_the_primes_otherwise():
    assert default_radices(64) == (2,) * 6
    assert default_radices(34) == (2, 17)
    assert default_radices(85) == (5, 17)
    assert default_radices(784) == (2, 2, 2, 2, 7, 7)
    assert default_radices(1000) == (2, 2, 2, 5, 5, 5)
    assert [smooth_size(n) for n in (1, 16, 19, 31, 37, 1021)] == [1, 16, 20, 32, 39, 1024]


def test_a_plan_prints_its_cost_and_is_made_once():
    plan = plan_matrix(64, 64, 64)
    assert plan.method == "dense"
    assert str(plan.flops) in str(plan)
    assert plan is plan_matrix(64, 64, 64)
    assert plan_matrix(4096, 4096, 4096).method == "grouped"
