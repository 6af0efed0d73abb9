"""Darcy flow: second order on a manufactured solution, and equal to a direct solve of its own matrix."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch

from xdops.errors import XDError
from xdops.pde import darcy
from xdops.pde.darcy import DarcySettings, darcy_matrix, make_darcy, solve_darcy


def grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(0, 1, size)
    return x[:, None], x[None, :]


def uneven(size: int, high: float = 12.0, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random((size, size)) < 0.5, high, 3.0)


def manufactured(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a = 1 + x + y^2, u = sin(pi x) sin(2 pi y), and f = -(a_x u_x + a_y u_y + a Laplace u)."""
    x, y = grid(size)
    a = 1 + x + y**2
    u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
    u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
    u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
    return a, u, -(u_x + 2 * y * u_y - 5 * np.pi**2 * a * u)


def test_a_manufactured_solution_is_met_to_second_order() -> None:
    errors = []
    for size in (17, 33, 65, 129):
        a, u, f = manufactured(size)
        errors.append(np.abs(solve_darcy(a, f) - u).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 1e-3
    np.testing.assert_allclose(orders, 2, atol=0.1)


def test_the_matrix_is_symmetric_and_positive_definite() -> None:
    matrix = darcy_matrix(uneven(12)).toarray()
    assert matrix.shape == (100, 100)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0


@pytest.mark.parametrize("size", [3, 4, 5, 9])
def test_tiny_grids_equal_a_dense_solve_of_equations_written_point_by_point(size: int) -> None:
    a, n = uneven(size, seed=size), size - 2
    equations = np.zeros((n * n, n * n))
    for i in range(n):
        for j in range(n):
            for k, m in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                face = (a[i + 1, j + 1] + a[k + 1, m + 1]) / 2 * (size - 1) ** 2
                equations[i * n + j, i * n + j] += face
                if 0 <= k < n and 0 <= m < n:
                    equations[i * n + j, k * n + m] -= face
    f = np.random.default_rng(1).standard_normal((size, size))
    u = np.linalg.solve(equations, f[1:-1, 1:-1].ravel()).reshape(n, n)
    np.testing.assert_allclose(solve_darcy(a, f)[1:-1, 1:-1], u, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(darcy_matrix(a).toarray(), equations, rtol=1e-14)


def test_iterations_agree_with_a_sparse_factorisation_and_vanish_on_the_boundary() -> None:
    a = uneven(85)
    u = solve_darcy(a)
    direct = scipy.sparse.linalg.spsolve(darcy_matrix(a), np.ones(83 * 83)).reshape(83, 83)
    np.testing.assert_allclose(u[1:-1, 1:-1], direct, rtol=1e-8)
    edges = np.concatenate([u[0], u[-1], u[:, 0], u[:, -1]])
    assert not edges.any()
    assert (u[1:-1, 1:-1] > 0).all()  # the maximum principle


def test_a_very_uneven_permeability_is_factorised() -> None:
    a = 10 ** (6 * np.random.default_rng(0).random((33, 33)))
    assert darcy._iterate(a, np.ones((31, 31))) is None
    residual = darcy_matrix(a) @ solve_darcy(a)[1:-1, 1:-1].ravel() - 1
    assert np.abs(residual).max() < 1e-6


def test_a_batch_is_its_samples_and_a_force_of_zero_moves_nothing() -> None:
    a = np.stack([uneven(21, seed=i) for i in range(3)])
    f = np.random.default_rng(0).standard_normal(a.shape)
    np.testing.assert_array_equal(solve_darcy(a, f), np.stack([solve_darcy(*pair) for pair in zip(a, f, strict=True)]))
    assert not solve_darcy(a, 0.0).any()


def test_a_sample_depends_on_seed_and_index_alone() -> None:
    settings = DarcySettings(samples=5, size=29)
    a, u = make_darcy(settings, range(5))
    assert a.shape == u.shape == (5, 29, 29)
    assert set(np.unique(a)) == {3.0, 12.0}
    later_a, later_u = make_darcy(settings, range(3, 5))
    np.testing.assert_array_equal(later_a, a[3:])
    np.testing.assert_array_equal(later_u, u[3:])
    assert (make_darcy(DarcySettings(samples=5, size=29, seed=1), range(5))[0] != a).any()


def test_all_sizes_show_the_same_field_and_solutions_approach_each_other() -> None:
    fine_a, fine_u = make_darcy(DarcySettings(samples=2, size=169), range(2))
    errors = []
    for size in (22, 43, 85):
        a, u = make_darcy(DarcySettings(samples=2, size=size), range(2))
        every = 168 // (size - 1)
        np.testing.assert_array_equal(a, fine_a[:, ::every, ::every])
        errors.append(np.linalg.norm(u - fine_u[:, ::every, ::every]) / np.linalg.norm(u))
    assert errors[2] < errors[1] < errors[0] < 0.2


def test_a_solver_size_records_every_so_many_th_point() -> None:
    fine = make_darcy(DarcySettings(samples=1, size=57), range(1))
    coarse = make_darcy(DarcySettings(samples=1, size=15, solver_size=57), range(1))
    for one, other in zip(fine, coarse, strict=True):
        np.testing.assert_array_equal(other, one[:, ::4, ::4])


def test_both_permeabilities_are_equally_likely() -> None:
    a, _ = make_darcy(DarcySettings(samples=200, size=15), range(200))
    share = (a == 12).mean(axis=(1, 2))
    assert abs(share.mean() - 0.5) < 4 * share.std() / np.sqrt(len(share))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "samples = 0"),
        ({"size": 2}, "size 2.*at least 3"),
        ({"size": 85, "solver_size": 400}, "size 85 from solver_size 400.*400 - 1 a multiple of 85 - 1"),
        ({"size": 85, "solver_size": 43}, "size 85 from solver_size 43"),
        ({"low": 0.0}, "permeability low 0"),
        ({"high": float("nan")}, "permeability high nan"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(XDError, match=message):
        DarcySettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "f", "message"),
    [
        (np.ones((2, 2)), 1.0, r"shape \(2, 2\)"),
        (np.ones((5, 6)), 1.0, r"shape \(5, 6\)"),
        (np.ones(5), 1.0, r"shape \(5,\)"),
        (np.ones((0, 5, 5)), 1.0, r"shape \(0, 5, 5\)"),
        (np.eye(5), 1.0, r"20 values that are not positive.*\(0, 1\): 0.0"),
        (np.full((5, 5), np.inf), 1.0, "25 values"),
        (np.ones((5, 5)), np.ones(5), r"f of shape \(5,\)"),
        (np.ones((5, 5)), np.nan, "f with values that are not finite"),
    ],
)
def test_bad_fields_are_refused(a: np.ndarray, f: np.ndarray | float, message: str) -> None:
    with pytest.raises(XDError, match=message):
        solve_darcy(a, f)


def test_the_number_of_threads_does_not_matter() -> None:
    settings, before, solutions = DarcySettings(samples=4, size=43), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            solutions.append(make_darcy(settings, range(4))[1])
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(solutions[0], solutions[1], rtol=1e-12)
