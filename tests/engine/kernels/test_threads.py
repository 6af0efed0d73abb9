"""Parts of a kernel's work in several threads: torch's own team, or a pool where there is none."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from xdops.engine.kernels import team, threads

pytest.importorskip("numba")

from xdops.engine.kernels.native import OWN, Native, integers, integers_at, next_part, numbers


def _count(given):
    """Words: an array with a number for every part, which is counted up; who has arrived, how many are waited for; one more."""
    row = integers(given)
    done, arrived = numbers(given, row[OWN], row[1]), numbers(given, row[OWN + 1], row[OWN + 2])
    part = next_part(row)
    while part < row[1]:
        done[part] += 1
        arrived[part % row[OWN + 2]] = 1
        while arrived.sum() < row[OWN + 2]:  # nobody leaves alone
            next_part(integers_at(row[OWN + 3]))  # which also has the sum looked at anew
        part = next_part(row)


count = Native(_count)


@pytest.fixture(params=["team", "pool"])
def two_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "pool":
        monkeypatch.setattr(team, "there", lambda: False)
    elif not team.there():
        pytest.skip("torch has no team here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _counted(parts: int, together: int, dtype: type = np.float32) -> list[float]:
    done, arrived = np.zeros(parts, dtype), np.zeros(together, dtype)
    waited = np.zeros(1, np.int64)
    count(done.dtype, [done.ctypes.data, arrived.ctypes.data, together, waited.ctypes.data], parts)
    return done.tolist()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_are_done_once_each_and_two_at_a_time(dtype: type) -> None:
    assert _counted(2, together=2, dtype=dtype) == [1, 1]
    assert torch.ones(1000, 1000).sum() == 1_000_000  # torch's own team still works


@pytest.mark.usefixtures("two_threads")
def test_more_parts_than_threads_are_all_done() -> None:
    assert _counted(7, together=1) == [1] * 7


@pytest.mark.usefixtures("two_threads")
def test_several_threads_of_python_have_kernels_run_at_the_same_time() -> None:
    found: list[list[float]] = []
    callers = [threading.Thread(target=lambda: found.append(_counted(40, together=1))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [[1] * 40] * 4


def test_work_makes_no_more_parts_than_it_is_worth() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert [threads.parts(100, least) for least in (1, 30, 50, 101)] == [4, 3, 2, 1]
    finally:
        torch.set_num_threads(before)
