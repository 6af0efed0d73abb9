"""What the figures of results show."""

from matplotlib.figure import Figure

from xdops.report.result_plots import line_panel


def test_numbers_of_an_axis_that_would_run_into_each_other_are_left_out() -> None:
    sizes = [21, 36, 85, 106, 141, 211, 421]
    lines = [{"method": "CNN", "setting": {"size": n}, "metric": "error", "mean": 1.0, "spread": 0.1, "paper": None} for n in sizes]
    axes = Figure().add_subplot()
    line_panel(axes, {"x": "size", "log_x": True, "log_y": True}, lines, {"CNN": "#000000"}, 1.0)
    assert list(axes.get_xticks()) == sizes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["21", "36", "85", "", "141", "211", "421"]
    line_panel(axes, {"x": "size", "log_x": False, "log_y": True}, lines, {"CNN": "#000000"}, 1.0)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["21", "", "85", "", "141", "211", "421"]
