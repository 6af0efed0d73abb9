"""Half a butterfly and half a K-matrix, under the laws of every matrix, and beside the whole one."""

import pytest
import torch
from matrix_laws import MatrixLaws, agree

from xdops.errors import XDError
from xdops.matrices import (
    HalfButterfly,
    KMatrix,
    Kronecker,
    LearnableKMatrix,
    StructuredMatrix,
    default_radices,
    dft,
    half_radices,
    identity,
    random_gaussian,
)


def half_butterfly(radices, increasing: bool, dtype: torch.dtype) -> HalfButterfly:
    values = torch.randn(HalfButterfly.entries(radices), 2, dtype=torch.float64)
    return HalfButterfly((values / max(radices) ** 0.5).to(dtype), radices, increasing)


def half_rows(n: int, depth: int, dtype: torch.dtype) -> KMatrix:
    """Random, its last butterfly decreasing."""
    matrix = random_gaussian(n, depth + (depth + 1) % 2, half_radices(n), dtype=dtype)
    return KMatrix(matrix.butterflies[-depth:]).half_rows()


class TestHalfTheRows(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_butterfly((2, 2, 2, 2), False, dtype)


class TestHalfTheColumns(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_butterfly((2, 2, 2, 2), True, dtype)


class TestHalfTheRowsOfMixedRadices(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_butterfly((5, 3, 2), False, dtype)


class TestHalfTheColumnsOfMixedRadices(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_butterfly((3, 4, 2), True, dtype)


class TestHalfOfTwoPoints(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_butterfly((1, 2), False, dtype)


class TestHalfTheRowsOfDepth2(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_rows(12, 2, dtype)


class TestHalfTheRowsOfDepth3(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_rows(30, 3, dtype)


class TestHalfTheColumnsOfDepth3(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return half_rows(20, 3, dtype).transpose()


class TestKroneckerOfAWholeAndAHalf(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return Kronecker([random_gaussian(3, 2, dtype=dtype), half_rows(8, 1, dtype)])


@pytest.mark.parametrize("radices", [(2, 2, 2), (2, 17, 2), (5, 3, 2), (1, 2)])
@pytest.mark.parametrize("depth", [1, 3])
def test_it_is_the_first_half_with_half_the_numbers_in_its_outer_butterfly(radices, depth):
    n = int(torch.tensor(radices).prod())
    whole = random_gaussian(n, depth, radices, dtype=torch.float64)
    half = whole.half_rows()
    agree(half.to_dense(), whole.to_dense()[: n // 2], 1e-10)
    agree(whole.T.half_columns().to_dense(), whole.T.to_dense()[:, : n // 2], 1e-10)
    assert 2 * half.butterflies[-1].num_parameters == whole.butterflies[-1].num_parameters
    assert (half.depth, half.n, half.shape) == (depth, n, (n // 2, n))


def test_the_first_half_of_a_reversed_dft_holds_the_even_frequencies():
    n = 24
    x = torch.randn(n, dtype=torch.float64)
    half = dft(n, half_radices(n), order="reversed", dtype=torch.float64).half_rows()
    agree(half.apply(x).abs().sort().values, torch.fft.fft(x)[::2].abs().sort().values, 1e-10)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_learnable_half_has_one_parameter_for_each_butterfly(transposed):
    matrix = half_rows(12, 3, torch.float64)
    matrix = matrix.transpose() if transposed else matrix
    module = LearnableKMatrix(matrix)
    agree(module.matrix.to_dense(), matrix.to_dense(), 1e-10)
    assert sum(p.numel() for p in module.parameters()) == matrix.num_parameters
    module(torch.randn(2, matrix.shape[1], dtype=torch.float64)).abs().sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in module.parameters())
    assert "n=12, half" in repr(module)


def test_bad_halves_are_refused():
    assert half_radices(36) == (*default_radices(18), 2)
    for call in (
        lambda: half_radices(9),
        lambda: half_butterfly((2, 3), False, torch.float64),
        lambda: HalfButterfly(torch.zeros(5, 2), (2, 2), False),
        lambda: identity(8, first="increasing").half_rows(),
        lambda: identity(12, radices=(4, 3)).half_rows(),
        lambda: identity(8).half_rows() @ identity(8).half_rows(),
    ):
        with pytest.raises(XDError):
            call()
