"""Data inside of packages: files are read without importing what they come with, and what is missing is named."""

from pathlib import Path

import numpy as np
import pytest

from xdops.data import packages
from xdops.errors import XDError


def test_series_are_read_with_their_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#about\n@problemName Tiny\n@classLabel true a b\n@data\n1,2,3:a\n4,5e-1,6:b\n\n"
    (tmp_path / "series.ts").write_text(text)
    monkeypatch.setattr(packages, "package_file", lambda package, path: tmp_path / "series.ts")
    x, y = packages.read_series("Tiny")["all"]
    assert np.array_equal(x, np.array([[1, 2, 3], [4, 0.5, 6]] * 2, dtype=np.float32))
    assert y.tolist() == ["a", "b", "a", "b"]


@pytest.mark.parametrize("text", ["1,2:a\n", "@data\n1,x:a\n", "@data\n1,2:a\n1:b\n", "@data\n1,2\n"], ids=repr)
def test_other_text_is_refused_by_name(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "series.ts").write_text(text)
    monkeypatch.setattr(packages, "package_file", lambda package, path: tmp_path / "series.ts")
    with pytest.raises(XDError, match=r"series\.ts"):
        packages.read_series("Tiny")


def test_a_package_that_is_not_there_is_named_with_the_way_to_have_it() -> None:
    with pytest.raises(XDError, match=r"package no_such_package.*pip install --no-deps aeon scikit-image"):
        packages.package_file("no_such_package", "data/coins.png")
    with pytest.raises(XDError, match=r"no file nothing\.png of a package numpy"):
        packages.package_file("numpy", "nothing.png")


def test_patches_lie_side_by_side() -> None:
    picture = np.arange(5 * 7, dtype=np.float32).reshape(5, 7)
    found = packages.patches(picture, 2)
    assert found.shape == (6, 2, 2)
    assert np.array_equal(found[4], picture[2:4, 2:4])


def test_the_second_half_of_a_day_is_asked_for_given_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    days = np.arange(48, dtype=np.float32).reshape(2, 24)
    monkeypatch.setattr(packages, "read_series", lambda name: {"all": (days, np.array(["1", "2"]))})
    x, y = packages.afternoons()["all"]
    assert np.array_equal(np.concatenate([x, y], axis=1), days)
    assert x.shape == y.shape == (2, 12)
