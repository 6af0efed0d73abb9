"""Every example of the gallery runs, at a tiny scale, and makes a picture; every public name is in the reference."""

import re
import runpy
from pathlib import Path

import pytest

import xdops

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_makes_a_picture(example: Path, monkeypatch: pytest.MonkeyPatch):
    import matplotlib

    if "onnx" in example.read_text():
        pytest.importorskip("onnxruntime")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setenv("XDOPS_TINY", "1")
    plt.close("all")
    runpy.run_path(str(example), run_name="__main__")
    pictures = [plt.figure(number) for number in plt.get_fignums()]
    assert pictures
    assert all(axes.has_data() for picture in pictures for axes in picture.axes)
    plt.close("all")


def test_there_are_ten_examples():
    assert len(EXAMPLES) == 10


def test_the_reference_has_every_public_name():
    text = (DOCS / "api.rst").read_text()
    named = set(
        re.findall(r"(?:autofunction|autoclass|autoexception|automodule|autodata):: xdops\.(?:[\w.]+\.)?(\w+)$", text, re.M)
    )
    assert set(xdops.__all__) - {"__version__"} <= named
