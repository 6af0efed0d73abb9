"""Every matrix type under the laws of `matrix_laws`."""

import pytest
import torch
from matrix_laws import MatrixLaws

from xdops.matrices import (
    Butterfly,
    KMatrix,
    Kronecker,
    StructuredMatrix,
    dft,
    diagonal,
    identity,
    inverse_dft,
    permutation,
    random_gaussian,
    random_unitary,
    sparse,
    zero,
)


def butterfly(radices, increasing: bool, dtype: torch.dtype) -> Butterfly:
    values = torch.randn(Butterfly.entries(radices), 2, dtype=torch.float64)
    return Butterfly((values / max(radices) ** 0.5).to(dtype), radices, increasing)


class TestIncreasingButterfly(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((2, 2, 2, 2), True, dtype)


class TestDecreasingButterfly(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((2, 2, 2, 2), False, dtype)


class TestRadixFourButterfly(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((4, 4), True, dtype)


class TestButterflyOf34(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((2, 17), False, dtype)


class TestButterflyOf85(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((5, 17), True, dtype)


class TestButterflyOf784(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((2, 2, 2, 2, 7, 7), False, dtype)


class TestButterflyWithLargeRadicesFirst(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((5, 3, 4), True, dtype)


class TestButterflyOfOne(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return butterfly((1,), True, dtype)


class TestDepth1(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return random_gaussian(24, 1, dtype=dtype)


class TestDepth2(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return random_gaussian(16, 2, (4, 2, 2), dtype=dtype)


class TestDepth3(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return random_gaussian(30, 3, dtype=dtype)


class TestDepth4(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return random_gaussian(16, 4, dtype=dtype)


class TestMixedRadicesInOneProduct(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return KMatrix([butterfly((2, 6), True, dtype), butterfly((4, 3), True, dtype)])


class TestKroneckerOfTwo(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return Kronecker([random_gaussian(4, 2, dtype=dtype), random_gaussian(6, 1, dtype=dtype)])


class TestKroneckerOfThree(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return Kronecker(
            [random_unitary(3, 1, dtype=dtype), random_gaussian(4, 3, dtype=dtype), random_gaussian(5, 1, dtype=dtype)]
        )


class TestDFT(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return dft(24, dtype=dtype)


class TestReversedDFT(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return dft(20, order="reversed", dtype=dtype)


class TestInverseDFT(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return inverse_dft(18, dtype=dtype)


class TestIdentity(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return identity(12, 3, dtype=dtype)


class TestZero(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return zero(12, 2, dtype=dtype)


class TestDiagonal(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return diagonal(torch.randn(15, dtype=torch.complex128), dtype=dtype)


class TestPermutation(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return permutation(torch.randperm(36), dtype=dtype)


class TestSparse(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        matrix = torch.zeros(16 * 16, dtype=torch.float64)
        matrix[torch.randperm(256)[:16]] = torch.randn(16, dtype=torch.float64)
        return sparse(matrix.view(16, 16), dtype=dtype)


class TestRandomUnitary(MatrixLaws):
    def make(self, dtype) -> StructuredMatrix:
        return random_unitary(34, 2, dtype=dtype)

    def test_its_inverse_is_its_adjoint(self):
        dense = random_unitary(34, 2, dtype=torch.float64).to_dense()
        torch.testing.assert_close(dense @ dense.mH, torch.eye(34, dtype=torch.complex128))


def test_gaussian_factors_keep_the_norm_on_average():
    x = torch.randn(64, dtype=torch.float64)
    ratios = [random_gaussian(64, 1, dtype=torch.float64).apply(x).norm() ** 2 / x.norm() ** 2 for _ in range(200)]
    assert torch.stack(ratios).mean() == pytest.approx(1.0, abs=0.15)


def test_a_product_that_was_asked_for_first_in_inference_mode_is_differentiated_later():
    matrix = random_unitary(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.randn(3, 5, dtype=torch.float64)
    with torch.inference_mode():
        matrix.apply(x, rows=[1, 4], plan="staged")
    x.requires_grad_()
    y = matrix.apply(x, rows=[1, 4], plan="staged")
    y.abs().square().sum().backward()
    assert float(x.grad.norm()) > 0


@pytest.mark.parametrize("plan", ["dense", "grouped", "staged"])
def test_values_may_begin_at_an_odd_place_of_a_longer_vector(plan):
    own = butterfly((2, 3, 2), False, torch.float32)
    vector = torch.cat((torch.zeros(1), own.values.flatten()))
    moved = Butterfly(vector[1:].view(-1, 2), own.radices, own.increasing)
    x = torch.randn(3, 12)
    torch.testing.assert_close(moved.apply(x, plan=plan), own.apply(x, plan=plan))
