"""Names that users choose stay text: in the report, in figures, in Markdown, in file names."""

import json
from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.report.page import Changed, Picture, figure
from xdops.report.performance import _read
from xdops.report.plan import read_plan
from xdops.report.result_page import check_page, code_block, plain
from xdops.report.rows import read_results
from xdops.report.style import embed, literal
from xdops.report.texts import check_names

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


MARKS = ["a\nb", "a|b", "`a", "[x](y)", "![x](//host/y.png)", "<script>", "a\x1b[31m"]


@pytest.mark.parametrize("text", MARKS)
def test_what_is_more_than_a_name_is_refused_wherever_it_stands_in_a_file_that_pages_are_made_from(text: str) -> None:
    for value in (text, [text], {"rows": [{"setting": {text: 1}}]}, {"machine": {"processor": f"A fast one {text}"}}):
        with pytest.raises(ValueError, match="the text"):
            check_names(value)
    check_names({"method": "CNN XD [3, 3] (b & C) *", "more": [1, None, "x < 3, y_z"]})


@pytest.mark.parametrize("place", ["results", "plan", "bench"])
def test_pages_are_not_made_from_names_that_markdown_would_obey(place: str, tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "results"
    name = {"results": "burgers-laptop", "plan": "plan-paper", "bench": "bench-sweep"}[place]
    document = {"machine": {"processor": "x"}} if place == "bench" else json.loads((results / f"{name}.json").read_text())
    document.pop("digest", None)
    (document["machines"][0] if place == "results" else document["machine"])["processor"] = "[fast](//host)"
    (tmp_path / f"{name}.json").write_text(json.dumps(document))
    read = {"results": lambda: read_results(tmp_path), "plan": lambda: read_plan(tmp_path / f"{name}.json")}
    with pytest.raises(XDError, match=rf"{name}.json, which makes no sense \(the text '\[fast\]\(//host\)'\)"):
        read.get(place, lambda: _read(tmp_path / f"{name}.json", set(), "xdops bench sweep --json"))()


def test_a_page_of_somebody_elses_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text("# My results\n\nmine")
    with pytest.raises(XDError, match="was not written by xdops"):
        check_page(tmp_path)
