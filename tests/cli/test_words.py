"""Words that do not fit a command are answered in one line that is the same every time."""

import pytest

from xdops.cli.main import main


def test_a_wrong_choice_is_answered_with_the_right_ones_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "data.npz", "--kind", "poetry"]) == 2
    told = capsys.readouterr().err
    assert "(invalid choice 'poetry' for argument '--kind': classification, dense, next-step, regression, sequence-class" in told
    assert "None" not in told
