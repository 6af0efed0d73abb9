"""Interleaved timing, by a clock that only moves when a candidate runs."""

from types import SimpleNamespace

import pytest

from xdops.measuring import timing
from xdops.measuring.timing import interleaved


class Bench:
    """Candidates that take given times, one after the other, and a list of who ran."""

    def __init__(self, **times: list[float]) -> None:
        self.now, self.calls = 0.0, []
        self.candidates = {name: self.candidate(name, iter(values)) for name, values in times.items()}

    def candidate(self, name, values):
        def run() -> None:
            self.calls.append(name)
            self.now += next(values)

        return run


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch):
    def run(repetitions: int, **times: list[float]):
        bench = Bench(**times)
        monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: bench.now))
        return bench, interleaved(bench.candidates, "a", repetitions)

    return run


def test_candidates_take_turns_and_the_first_round_is_not_counted(measure) -> None:
    bench, timings = measure(3, a=[100, 9, 1, 2, 1], b=[100, 9, 4, 4, 1])
    assert bench.calls == ["a", "b", "a", "a", "b", "b", "a", "b", "a", "b"]
    assert (timings["a"].seconds, timings["b"].seconds) == (1, 4)


def test_quick_candidates_run_once_more_before_each_time_that_counts(measure) -> None:
    bench, timings = measure(3, a=[0.05] * 7, b=[1.0] * 5)
    assert bench.calls == ["a", "b", "a", "a", "b", "b", *["a", "a", "b"] * 2]
    assert timings["b"].ratio == pytest.approx(20)


def test_very_quick_candidates_are_timed_several_times_in_a_row_and_the_mean_counts(measure) -> None:
    bench, timings = measure(2, a=[0.005, *[0.005, 0.002, 0.004, 0.006, 0.008] * 2], b=[1.0] * 4)
    assert bench.calls == ["a", "b", *["a"] * 5, "b", "b", *["a"] * 5, "b"]
    assert timings["a"].seconds == pytest.approx(0.005)


def test_a_ratio_is_the_median_over_repetitions_of_the_ratio_within_each(measure) -> None:
    _, timings = measure(3, a=[1, 1, 1, 2, 4], b=[1, 1, 2, 8, 4])  # 2, 4 and 1 times as long
    assert (timings["b"].low, timings["b"].ratio, timings["b"].high) == (1, 2, 4)
    assert timings["b"].seconds == 4
