"""The laws that every structured matrix obeys, against its dense twin. A matrix's own test only says how to make one."""

import pytest
import torch
from torch import Tensor

from xdops.matrices import Butterfly, HalfButterfly, KMatrix, Kronecker, StructuredMatrix, identity

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
DTYPES = [pytest.param(torch.float64, id="float64"), pytest.param(torch.float32, id="float32")]
PLANS = ["auto", "dense", "grouped", "staged"]


def agree(given: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal shapes, and the largest error small beside the largest entry."""
    assert given.shape == expected.shape
    if expected.numel():
        scale = max(1.0, float(expected.detach().abs().max()))
        assert float((given - expected).detach().abs().max()) <= tolerance * scale


def complex_randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex128 if dtype == torch.float64 else torch.complex64)


def values_of(matrix: StructuredMatrix) -> list[Tensor]:
    if isinstance(matrix, Butterfly):
        return [matrix.values]
    parts = matrix.butterflies if isinstance(matrix, KMatrix) else matrix.matrices
    return [v for part in parts for v in values_of(part)]


def rebuilt(matrix: StructuredMatrix, values: list[Tensor]) -> StructuredMatrix:
    """The same kind of matrix with other numbers."""
    if isinstance(matrix, Butterfly):
        return type(matrix)(values[0], matrix.radices, matrix.increasing)
    parts = matrix.butterflies if isinstance(matrix, KMatrix) else matrix.matrices
    taken, start = [], 0
    for part in parts:
        count = len(values_of(part))
        taken.append(rebuilt(part, values[start : start + count]))
        start += count
    return type(matrix)(taken)


def by_definition(matrix: StructuredMatrix) -> Tensor:
    """The dense matrix entry by entry from the definition of a factor, sharing nothing with the code under test."""
    if isinstance(matrix, Kronecker):
        dense = torch.ones(1, 1, dtype=torch.complex128)
        for part in matrix.matrices:
            dense = torch.kron(dense, by_definition(part))
        return dense
    if isinstance(matrix, KMatrix):
        dense = torch.eye(matrix.shape[1], dtype=torch.complex128)
        for butterfly in matrix.butterflies:
            dense = by_definition(butterfly) @ dense
        return dense
    if isinstance(matrix, HalfButterfly):
        whole = by_definition(completed(matrix))
        return whole[:, : matrix.n // 2] if matrix.increasing else whole[: matrix.n // 2]
    assert isinstance(matrix, Butterfly)
    numbers = torch.view_as_complex(matrix.values.detach().double().contiguous())
    dense, start, stride, factors = torch.eye(matrix.n, dtype=torch.complex128), 0, 1, []
    for r in matrix.radices:
        factor = torch.zeros(matrix.n, matrix.n, dtype=torch.complex128)
        entry = torch.arange(matrix.n * r)  # (block, offset, i, l), the last fastest
        block, offset, i, k = entry // (r * r * stride), entry // (r * r) % stride, entry // r % r, entry % r
        factor[(block * r + i) * stride + offset, (block * r + k) * stride + offset] = numbers[start : start + matrix.n * r]
        factors.append(factor)
        start, stride = start + matrix.n * r, stride * r
    for factor in factors if matrix.increasing else reversed(factors):
        dense = factor @ dense
    return dense


def completed(half: HalfButterfly) -> Butterfly:
    """A whole butterfly of which it is half: other blocks, and the fold's other row or column, at random."""
    numbers = torch.view_as_complex(half.values.detach().double().contiguous())
    parts, start = [], 0
    for r in half.radices[:-1]:
        given = numbers[start : start + half.n // 2 * r]
        parts += [given, torch.randn_like(given)]
        start += half.n // 2 * r
    last = complex_randn(half.n // 2, 2, 2, dtype=torch.float64)  # (offset, i, l)
    last.select(2 if half.increasing else 1, 0).copy_(numbers[start:].view(-1, 2))
    return Butterfly(torch.view_as_real(torch.cat((*parts, last.flatten()))), half.radices, half.increasing)


class MatrixLaws:
    """Subclass it and say how to make the matrix."""

    def make(self, dtype: torch.dtype) -> StructuredMatrix:
        raise NotImplementedError

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_its_dense_twin_is_the_product_of_its_factors(self, dtype):
        matrix = self.make(dtype)
        agree(matrix.to_dense().to(torch.complex128), by_definition(matrix), TOLERANCE[dtype])

    @pytest.mark.parametrize("plan", PLANS)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_multiplies_along_any_dimension(self, dtype, plan):
        matrix = self.make(dtype)
        dense = matrix.to_dense()
        for dim in (0, 1, -1):
            shape = [2, 3, 2]
            shape[dim] = matrix.shape[1]
            x = complex_randn(*shape, dtype=dtype)
            expected = (dense @ x.movedim(dim, -1)[..., None])[..., 0].movedim(-1, dim)
            agree(matrix.apply(x, dim=dim, plan=plan), expected, TOLERANCE[dtype])
            agree(matrix.apply(x.real, dim=dim, plan=plan), matrix.apply(x.real.to(x.dtype), dim=dim, plan=plan), TOLERANCE[dtype])

    @pytest.mark.parametrize("plan", PLANS)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_uses_only_the_columns_and_rows_it_is_asked_for(self, dtype, plan):
        matrix = self.make(dtype)
        dense, (n, width) = matrix.to_dense(), matrix.shape
        some = torch.randperm(n)[: max(1, n // 3)]
        for m in sorted({1, max(1, width // 2), width - width // 4, width}):
            for rows in (None, slice(0, n, 2), some, [n - 1, 0], []):
                wanted = dense[:, :m] if rows is None else dense[:, :m][rows]
                x = complex_randn(3, m, dtype=dtype)
                agree(matrix.apply(x, rows=rows, plan=plan), x @ wanted.mT, TOLERANCE[dtype])
                agree(matrix.to_dense(m, rows), wanted, TOLERANCE[dtype])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_transpose_conjugate_and_adjoint(self, dtype):
        matrix = self.make(dtype)
        dense = matrix.to_dense()
        for given, expected in ((matrix.T, dense.mT), (matrix.conj(), dense.conj()), (matrix.H, dense.mH)):
            agree(given.to_dense(), expected.resolve_conj(), TOLERANCE[dtype])
            x = complex_randn(2, given.shape[1], dtype=dtype)
            agree(given.apply(x, plan="staged"), x @ expected.mT, TOLERANCE[dtype])
            assert given.depth == matrix.depth
            assert given.num_parameters == matrix.num_parameters

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_products_add_depths(self, dtype):
        matrix = self.make(dtype)
        if isinstance(matrix, Butterfly):
            matrix = KMatrix([matrix])
        product = matrix.T @ matrix
        agree(product.to_dense(), matrix.to_dense().mT @ matrix.to_dense(), TOLERANCE[dtype])
        assert product.depth == 2 * matrix.depth

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_diagonal_factor_keeps_the_depth(self, dtype):
        matrix = self.make(dtype)
        if isinstance(matrix, Kronecker):
            matrix = matrix.matrices[0]
        elif isinstance(matrix, Butterfly):
            matrix = KMatrix([matrix])
        d, e = (complex_randn(size, dtype=dtype) for size in matrix.shape)
        agree(matrix.scale_rows(d).to_dense(), d[:, None] * matrix.to_dense(), TOLERANCE[dtype])
        agree(matrix.scale_columns(e).to_dense(), matrix.to_dense() * e, TOLERANCE[dtype])
        assert matrix.scale_rows(d).depth == matrix.scale_columns(e).depth == matrix.depth

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_kronecker_products_act_dimension_by_dimension(self, dtype):
        matrix = self.make(dtype)
        parts = (
            list(matrix.matrices)
            if isinstance(matrix, Kronecker)
            else [matrix if isinstance(matrix, KMatrix) else KMatrix([matrix])]
        )
        other = identity(3, dtype=dtype).scale_rows(torch.arange(1.0, 4.0))
        both = Kronecker([*parts, other])
        x = complex_randn(2, matrix.shape[1], 3, dtype=dtype)
        expected = torch.einsum("ab,zbc->zac", matrix.to_dense(), x) * torch.arange(1.0, 4.0)
        agree(both.apply_grid(x.unflatten(1, [p.shape[1] for p in parts])).flatten(1, -2), expected, TOLERANCE[dtype])
        if matrix.n <= 100:
            agree(both.to_dense(), torch.kron(matrix.to_dense(), other.to_dense()), TOLERANCE[dtype])

    @pytest.mark.parametrize("plan", ["dense", "grouped", "staged"])
    def test_gradients_of_values_and_input(self, plan):
        matrix = self.make(torch.float64)
        values = [v.detach().clone().requires_grad_() for v in values_of(matrix)]
        x = torch.randn(2, max(1, matrix.shape[1] - 1), dtype=torch.float64, requires_grad=True)
        rows = range(0, matrix.shape[0], 2)

        def multiply(x: Tensor, *values: Tensor) -> Tensor:
            return rebuilt(matrix, list(values)).apply(x, rows=rows, plan=plan)

        assert torch.autograd.gradcheck(multiply, (x, *values), fast_mode=True)

    def test_knows_its_size_and_description(self):
        matrix = self.make(torch.float32)
        assert matrix.shape == matrix.to_dense().shape
        assert matrix.num_parameters == sum(v.numel() for v in values_of(matrix))
        assert matrix.description_length == 32 * matrix.num_parameters
        assert f"n={matrix.n}" in repr(matrix)
