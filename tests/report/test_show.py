"""`xdops.show` draws operations, and results show themselves in notebooks, with names escaped."""

from pathlib import Path

import pytest
import torch
from torch import nn

import xdops
from xdops import XDError, XDOperation
from xdops.search.results import EpochRecord, SearchResult

PNG = b"\x89PNG"


@pytest.mark.parametrize("conv", [nn.Conv1d(1, 2, 3, padding=1), nn.Conv2d(1, 2, 3, padding=1), nn.Conv3d(1, 2, 2)])
def test_operations_are_drawn(conv: nn.Module, tmp_path: Path):
    drawing = xdops.show(XDOperation.from_conv(conv, 5))
    assert drawing._repr_png_().startswith(PNG)
    drawing.save(tmp_path / "op.png")
    assert (tmp_path / "op.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("change", [lambda model: xdops.merge_(model), lambda model: xdops.resize_(model, torch.zeros(1, 1, 13))])
def test_what_stands_in_an_operations_place_is_drawn_as_that_operation(change):
    model = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1))
    xdops.convert_(model, torch.zeros(1, 1, 9))
    with torch.no_grad():
        xdops.arch_parameters(model)[0].mul_(2)
    drawn = xdops.show(model[0])._repr_png_()
    change(model)
    assert not isinstance(model[0], XDOperation)
    assert xdops.show(model[0])._repr_png_() == drawn


def test_shift_invariant_operations_are_drawn_tap_by_tap():
    model = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1))
    xdops.convert_(model, torch.zeros(1, 1, 9), xdops.XDConfig(shift_invariant=True, span=5))
    assert len(xdops.show(model[0]).figure.axes[0].lines) == 3


def test_what_cannot_be_drawn_is_refused():
    op = XDOperation.from_conv(nn.Conv1d(1, 2, 3, padding=1), 8)
    with pytest.raises(XDError, match="an XD-operation"):
        xdops.show(nn.Conv1d(1, 1, 3))
    with pytest.raises(XDError, match="one per dimension"):
        xdops.show(op, (8, 8))
    with pytest.raises(XDError, match="an input of length 99"):
        xdops.show(op, 99)


def test_results_and_distances_show_themselves_escaped():
    op = XDOperation.from_conv(nn.Conv1d(1, 2, 3, padding=1), 8)
    assert "<td>0</td>" in xdops.distance(op, op)._repr_html_()
    nearest = xdops.nearest_named(op, 2)
    assert "<td>convolution 3</td><td>0</td><td>0</td>" in nearest._repr_html_()
    assert str(nearest).splitlines()[2].split() == ["convolution", "3", "0", "0"]
    record = EpochRecord(1, 0.5, 0.5, 0.9, 0.1, 0.1, 0.2, 1.0)
    result = SearchResult("accuracy", True, 1, 0.9, 0.9, 0.8, 0.8, 1.0, 10, 5, {"<b>": 0.25}, (record,), "best", "")
    html = result._repr_html_()
    assert "novelty of &lt;b&gt;" in html
    assert "<b>" not in html
    assert "0.8" in html
