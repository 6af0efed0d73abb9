"""What is a path and what is a URL."""

import pytest

from xdops.cli.places import find_place, is_url
from xdops.errors import XDError


@pytest.mark.parametrize(
    ("out", "path"),
    [
        ("runs/mine", "runs/mine"), ("", "."), ("a:b", "a:b"), ("C:/runs", "C:/runs"), ("::", "::"), ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"), ("file://runs/mine", "runs/mine"), ("local://runs", "runs"), ("filed/x", "filed/x"), ("s3", "s3"),
    ],
)  # fmt: skip
def test_paths_are_paths(out: str, path: str) -> None:
    place = find_place(out)
    assert place.mirror is None
    assert str(place.folder) == path


@pytest.mark.parametrize(
    "out", ["s3://b/x", "memory://x", "dir://b::file:///x", "simplecache::s3://b/x", "file::x", "a::b://c", "://"]
)
def test_urls_are_urls(out: str) -> None:
    assert is_url(out)


@pytest.mark.parametrize("out", ["s3:/bucket/x", "file:", "file://", "local:", "gs:/x"])
def test_what_is_half_a_url_is_refused(out: str) -> None:
    with pytest.raises(XDError, match=f"--out {out}"):
        find_place(out)
