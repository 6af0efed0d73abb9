"""One bar over all runs: it ends at 100%, and tells the time left for everything from the pace of each group."""

import io

import pytest
from rich.console import Console

from xdops.search.overall import Overall


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def train(overall: Overall, clock: Clock, name: str, group: str, epochs: range, seconds: float) -> None:
    """Two steps an epoch."""
    run = overall.run(name, group, epochs.stop)
    run.start(epochs.stop, 2, "accuracy", epochs.start)
    for epoch in epochs:
        for step in (1, 2):
            clock.now += seconds / 2
            run.step(epoch, step, 0.5)
    run.finish()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def overall(clock: Clock) -> Overall:
    return Overall({"backbone": 4, "xd": 4}, Console(file=io.StringIO()), clock)


def share(overall: Overall) -> float:
    return overall._bar.tasks[0].percentage


def test_the_time_left_is_that_of_every_group_at_its_own_pace(overall: Overall, clock: Clock):
    assert overall.seconds_left() != overall.seconds_left()
    train(overall, clock, "backbone, seed 0", "backbone", range(2), 10)
    assert overall.seconds_left() == pytest.approx(2 * 10 + 4 * 10)  # nothing is known of xd yet
    train(overall, clock, "xd, seed 0", "xd", range(2), 30)
    assert overall.seconds_left() == pytest.approx(2 * 10 + 2 * 30)
    assert share(overall) == pytest.approx(50)


def test_what_was_trained_before_counts_as_done_and_takes_no_time(overall: Overall, clock: Clock):
    overall.run("backbone, seed 0", "backbone", 2).leave()
    assert share(overall) == pytest.approx(25)
    train(overall, clock, "backbone, seed 1", "backbone", range(1, 2), 10)
    assert share(overall) == pytest.approx(50)
    assert overall.seconds_left() == pytest.approx(4 * 10)


def test_a_trial_that_is_continued_is_counted_once(overall: Overall, clock: Clock):
    train(overall, clock, "xd, trial 0", "xd", range(1), 10)
    train(overall, clock, "xd, trial 0", "xd", range(1, 4), 10)
    assert share(overall) == pytest.approx(50)
