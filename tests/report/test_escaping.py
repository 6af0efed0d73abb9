"""Names that users choose stay text: in the report, in figures, in Markdown, in file names."""

import json
from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.report.page import Changed, Picture, figure
from xdops.report.result_page import check_page, code_block, plain
from xdops.report.rows import read_results
from xdops.report.style import embed, literal

EVIL = '"><script>alert(1)</script>$x_{$'


def test_a_layers_name_is_text_wherever_the_report_shows_it() -> None:
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(1, 1))
    drawing.subplots().set_title(literal(EVIL))  # as a formula it would not even parse
    image = embed(drawing, "svg", f"operator matrices of {EVIL}")
    assert "<script" not in image
    assert image.startswith('<img alt="operator matrices of &quot;&gt;&lt;script&gt;')
    layer = Changed(EVIL, EVIL, (Picture(image, EVIL),))
    assert "<script" not in figure(layer.pictures[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>x</b>", r"\<b\>x\</b\>"),
        ("[x](javascript:y)", r"\[x\](javascript:y)"),
        ("a\n# b", r"a \# b"),
        ("| a_b *c*", r"\| a\_b \*c\*"),
        ("code `a_b` stays", "code `a_b` stays"),
        ("one ` only <", r"one ' only \<"),
    ],
)
def test_titles_are_text_in_markdown(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_command_cannot_end_its_block() -> None:
    assert code_block("a\n```\n# b") == "````\na\n```\n# b\n````\n"


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "a b", "/etc/x", 7, None])
def test_a_tables_name_cannot_leave_the_docs(name: object, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"format": 1, "table": name, "scale": "laptop", "rows": []}))
    with pytest.raises(XDError, match=r"x\.json, which makes no sense"):
        read_results(tmp_path)


def test_a_page_of_somebody_elses_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text("# My results\n\nmine")
    with pytest.raises(XDError, match="was not written by xdops"):
        check_page(tmp_path)
