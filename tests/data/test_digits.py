"""The embedded demonstration: real digits, one fixed order of rows and columns for all of them."""

import json
from pathlib import Path

import numpy as np

from xdops.cli.main import main
from xdops.data.digits import digit_images
from xdops.experiments.recipes import DIGITS


def test_rows_and_columns_of_all_digits_are_in_one_other_order() -> None:
    plain, labels = digit_images(permuted=False)
    permuted, same_labels = digit_images(permuted=True)
    assert plain.shape == (1797, 8, 8)
    np.testing.assert_array_equal(labels, same_labels)
    assert not np.array_equal(plain, permuted)
    # Each row of pixels, over all images, is one of the plain ones with its columns in one other order.
    order = [
        [np.array_equal(np.sort(p, axis=1), np.sort(q, axis=1)) for q in plain.swapaxes(0, 1)] for p in permuted.swapaxes(0, 1)
    ]
    assert all(sum(row) == 1 for row in order)
    rows = [row.index(True) for row in order]
    columns = [next(j for j in range(8) if np.array_equal(plain[:, rows][:, :, j], permuted[:, :, i])) for i in range(8)]
    np.testing.assert_array_equal(plain[:, rows][:, :, columns], permuted)


def test_without_data_the_permuted_digits_are_searched_with_the_backbones_own_step_size(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["search", "--epochs", "1", "--seeds", "1", "--spaces", "backbone", "-q"]) == 0
    settings = json.loads(Path("runs/permuted-digits/settings.json").read_text())
    run = json.loads(Path("runs/permuted-digits/runs/backbone-seed0/run.json").read_text())
    assert settings["task"] == "digits with permuted rows and columns"
    assert run["settings"]["weights"]["lr"] == DIGITS.own["backbone"]["lr"] != DIGITS.lr
    assert settings["identity"]["search"]["weights"]["lr"] == DIGITS.lr


def test_a_given_step_size_is_the_backbones_too_unless_it_has_its_own(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = ["search", "--epochs", "1", "--seeds", "1", "--spaces", "backbone", "-q"]
    for flags, expected in ((["--lr", "0.02"], 0.02), (["--lr", "0.02", "--backbone-lr", "0.05"], 0.05)):
        assert main([*short, *flags, "--out", str(expected)]) == 0
        assert json.loads(Path(f"{expected}/runs/backbone-seed0/run.json").read_text())["settings"]["weights"]["lr"] == expected
