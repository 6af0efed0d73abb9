"""A choice at an end of what was tried is marked on the page."""

import pytest

from xdops.report.result_page import end_of_range

STEPS = ["step size 0.0005", "step size 0.001", "step size 0.002"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [("step size 0.0005", ", the smallest tried"), ("step size 0.001", ""), ("step size 0.002", ", the largest tried")],
)
def test_an_end_of_the_range_is_named(chosen, said):
    assert end_of_range(STEPS, chosen) == said


def test_small_numbers_are_read_as_they_are_printed():
    assert end_of_range(["step size 3e-05", "step size 0.0001", "step size 0.0003"], "step size 3e-05") == ", the smallest tried"


@pytest.mark.parametrize(
    "tried",
    [
        ["warm-up 0", "warm-up 12"],  # both are ends
        ["lr 0.1, depth 1", "lr 0.2, depth 2", "lr 0.3, depth 1"],  # a range of its own for each
        ["as it is", "lr 0.1", "lr 0.2"],
    ],
)
def test_nothing_is_said_of_what_is_no_range(tried):
    assert [end_of_range(tried, name) for name in tried] == [""] * len(tried)


def test_a_choice_that_was_not_tried_has_no_place_in_the_range():
    assert end_of_range(STEPS, "step size 7") == ""
