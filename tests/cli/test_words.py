"""Words that do not fit a command are answered in one line that is the same every time."""

import pytest

from xdops.cli.main import main


def test_a_wrong_choice_is_answered_with_the_right_ones_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "data.npz", "--kind", "poetry"]) == 2
    told = capsys.readouterr().err
    assert "(invalid choice 'poetry' for argument '--kind': classification, dense, next-step, regression, sequence-class" in told
    assert "None" not in told


def test_a_value_of_the_wrong_type_is_answered_in_a_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "data.npz", "--lr", "0x10"]) == 2
    assert "(--lr takes FLOAT, not '0x10'); expected" in capsys.readouterr().err
