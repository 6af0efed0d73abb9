"""Parts of work in several threads: torch's own team, or a pool where there is none."""

import threading
from collections.abc import Iterator

import pytest
import torch

from xdops.engine.kernels import team, threads


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


@pytest.mark.usefixtures("two_threads")
def test_parts_are_done_once_each_and_two_at_a_time() -> None:
    together, done = threading.Barrier(2), []

    def part(i: int) -> None:
        together.wait(timeout=60)  # nobody leaves alone
        done.append((i, threading.get_ident()))

    threads.run_each(part, 2)
    assert sorted(i for i, _ in done) == [0, 1]
    assert len({thread for _, thread in done}) == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("failing", ["here", "elsewhere"])
def test_a_part_that_fails_is_heard_of_in_any_thread_and_the_next_work_is_done(failing: str) -> None:
    caller, together = threading.get_ident(), threading.Barrier(2)

    def part(i: int) -> None:
        together.wait(timeout=60)
        if (threading.get_ident() == caller) == (failing == "here"):
            raise ValueError(f"part in a thread {failing}")

    with pytest.raises(ValueError, match=failing):
        threads.run_each(part, 2)
    done: list[int] = []
    threads.run_each(done.append, 2)
    assert sorted(done) == [0, 1]
    assert torch.ones(1000, 1000).sum() == 1_000_000  # torch's own team still works


def test_more_parts_than_threads_are_all_done() -> None:
    done: list[int] = []
    threads.run_each(done.append, 7)
    assert sorted(done) == list(range(7))
