"""The compiled kernels against dense matrices: values and gradients, in every layout that the engine uses."""

import os
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from xdops.engine.kernels import applying
from xdops.engine.kernels.applying import ButterflyShape, Side, joined_values, multiply, multiply_backward
from xdops.engine.workspace import workspace
from xdops.matrices import Butterfly, HalfButterfly, KMatrix

pytest.importorskip("numba")


@dataclass(frozen=True)
class Case:
    """A K-matrix of some butterflies, the first applied first; how many of its rows or columns are in use, and how far apart."""

    shapes: tuple[ButterflyShape, ...]
    columns: int
    count: int
    step: int = 1


def _butterflies(radices: tuple[int, ...], *increasing: bool) -> tuple[ButterflyShape, ...]:
    return tuple(ButterflyShape(radices, up) for up in increasing)


ENTERING = {
    "radix 2": Case(_butterflies((2, 2, 2, 2), False), 16, 16),
    "every unrolled radix, some columns of the input missing": Case(_butterflies((2, 3, 5), False), 37, 21),
    "depth 3": Case(_butterflies((2, 3), False, True, False), 16, 6),
    "radices without code of their own": Case(_butterflies((4, 7), False), 33, 28),
    "one factor": Case(_butterflies((5,), False), 17, 5),
    "one point": Case(_butterflies((1,), False), 3, 1),
    "spaced inputs": Case(_butterflies((2, 3, 2), False), 20, 4, 3),
    "half": Case((ButterflyShape((3, 2, 2), False, True),), 40, 11),
    "half, depth 3": Case((*_butterflies((3, 2), False, True), ButterflyShape((3, 2), False, True)), 16, 6),
}

LEAVING = {
    "radix 2": Case(_butterflies((2, 2, 2, 2), True), 16, 16),
    "every unrolled radix, some rows": Case(_butterflies((2, 3, 5), True), 37, 23),
    "every third row": Case(_butterflies((2, 7), True), 40, 5, 3),
    "depth 3": Case(_butterflies((3, 2), True, False, True), 21, 6),
    "half": Case((ButterflyShape((3, 2, 2), True, True),), 40, 11),
    "half, depth 3": Case((ButterflyShape((3, 2), True, True), *_butterflies((3, 2), False, True)), 18, 5),
}


def _matrix(shapes: tuple[ButterflyShape, ...], values: list[Tensor]) -> Tensor:
    parts = [(HalfButterfly if s.half else Butterfly)(v, s.radices, s.increasing) for s, v in zip(shapes, values, strict=True)]
    return KMatrix(parts).to_dense()


def _values(shapes: tuple[ButterflyShape, ...], dtype: torch.dtype) -> list[Tensor]:
    return [
        (torch.randn((HalfButterfly if s.half else Butterfly).entries(s.radices), 2, dtype=dtype) / 2).requires_grad_()
        for s in shapes
    ]


def _complex(t: Tensor) -> Tensor:
    """(q, m) or (2, ...) -> complex."""
    return torch.complex(t[0], t[1]) if t.dim() == 3 else torch.complex(t, torch.zeros_like(t))


def _parts(t: Tensor, like: Tensor) -> Tensor:
    return torch.stack((t.real, t.imag)) if like.dim() == 3 else t.real


def _close(found: Tensor | None, expected: Tensor) -> None:
    assert found is not None
    scale = float(expected.detach().abs().max()) + 1e-30
    torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=1e-12 if found.dtype == torch.float64 else 1e-5)


DTYPES = [torch.float64, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("case", ENTERING.values(), ids=ENTERING.keys())
def test_rows_enter_a_domain_as_columns(case: Case, real: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = _values(case.shapes, dtype)
    A = _matrix(case.shapes, values)
    x = torch.randn(*(() if real else (2,)), case.columns, case.count, dtype=dtype)
    seen = _complex(x).requires_grad_()
    expected = A[:, :: case.step][:, : case.count] @ seen.mT
    inside = Side(A.shape[1], case.count, case.step, 1 if real else 2)
    domain = Side(A.shape[0], A.shape[0], turned=False)
    y = torch.empty(2, A.shape[0], case.columns, dtype=dtype)
    flat = joined_values(values)
    multiply(case.shapes, flat, x, inside, y, domain, workspace())
    _close(y, _parts(expected, y))
    g = torch.randn_like(y)
    gx, *gv = torch.autograd.grad(expected, (seen, *values), _complex(g))
    grad = multiply_backward(case.shapes, flat, g, domain, x, inside, x, workspace())  # in place of x
    _close(x, _parts(gx, x))
    _close(grad[: flat.numel()], joined_values(gv))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("case", LEAVING.values(), ids=LEAVING.keys())
def test_columns_leave_a_domain_as_rows(case: Case, real: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = _values(case.shapes, dtype)
    A = _matrix(case.shapes, values)
    y = torch.randn(2, A.shape[1], case.columns, dtype=dtype)
    seen = _complex(y).requires_grad_()
    expected = (A[:: case.step][: case.count] @ seen).mT
    domain = Side(A.shape[1], A.shape[1], turned=False)
    outside = Side(A.shape[0], case.count, case.step, 1 if real else 2)
    out = torch.empty(*(() if real else (2,)), case.columns, case.count, dtype=dtype)
    flat = joined_values(values)
    multiply(case.shapes, flat, y, domain, out, outside, workspace())
    _close(out, _parts(expected, out))
    g = torch.randn_like(out)
    gy, *gv = torch.autograd.grad(expected, (seen, *values), _complex(g))
    without = torch.empty_like(y)
    assert multiply_backward(case.shapes, flat, g, outside, None, domain, without, workspace()) is None
    grad = multiply_backward(case.shapes, flat, g, outside, y, domain, y, workspace())
    _close(without, _parts(gy, y))
    _close(y, _parts(gy, y))
    _close(grad[: flat.numel()], joined_values(gv))


@pytest.fixture
def any_work_is_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "WORTH", 1)


def _gradient(threads: int) -> Tensor:
    shapes = _butterflies((2, 2, 2), False)
    torch.manual_seed(0)
    (values,), x, g = _values(shapes, torch.float32), torch.randn(100, 8), torch.randn(2, 8, 100)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        grad = multiply_backward(shapes, values.flatten(), g, Side(8, 8, turned=False), x, Side(8, 8, parts=1), None, workspace())
    finally:
        torch.set_num_threads(before)
    assert grad is not None
    return grad


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sums_repeat_to_the_bit(threads: int) -> None:
    assert torch.equal(_gradient(threads), _gradient(threads))
    _close(_gradient(threads), _gradient(1))


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    expected = _gradient(2)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(_gradient(2), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_tensors_that_are_not_contiguous_are_refused() -> None:
    x = torch.randn(8, 16).t()
    inside, domain = Side(8, 8, parts=1), Side(8, 8, turned=False)
    with pytest.raises(ValueError, match="contiguous"):
        multiply(_butterflies((2, 2, 2), False), torch.randn(96), x, inside, torch.empty(2, 8, 16), domain, workspace())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("entering", [True, False])
def test_rows_may_go_through_in_chunks(entering: bool, depth: int, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    radices = (3, 2, 2, 2)
    whole = _butterflies(radices, *[False, True][: depth - 1])
    own = ButterflyShape(radices, not entering, half)
    case = Case((*whole, own) if entering else (own, *whole), 37, 19)
    test = test_rows_enter_a_domain_as_columns if entering else test_columns_leave_a_domain_as_rows
    for rows in (6, 12):
        monkeypatch.setattr(applying, "chunk_rows", lambda *_, rows=rows: rows)
        applying.steps_of.cache_clear()
        if rows == 6:
            assert applying.steps_of(case.shapes, 24, 128).runs.tensor[:, 2].max() > 1
        test(case, True, torch.float64)
    applying.steps_of.cache_clear()


def test_kernels_bear_their_names_in_a_profile() -> None:
    case = ENTERING["radix 2"]
    values = joined_values(_values(case.shapes, torch.float32))
    x, y = torch.randn(case.columns, 16), torch.empty(2, 16, case.columns)
    with torch.profiler.profile() as profiler:
        multiply(case.shapes, values, x, Side(16, 16, parts=1), y, Side(16, 16, turned=False), workspace())
    assert "xdops::transforming forward" in {event.key for event in profiler.key_averages()}
