"""report.html stands alone and shows what a run found; its operator pictures show the operation that the layer computes."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from search_data import images
from torch import nn

from xdops.cli.main import main
from xdops.operations import XDOperation
from xdops.operations.dense import dense_operations
from xdops.report.operators import input_sizes


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    np.savez(folder / "data <1>.npz", **images())
    arguments = ["--seeds", "2", "--epochs", "2", "--backbone", "small", "--arch-lr", "0.03", "-q", "--out", str(folder / "out")]
    assert main(["search", str(folder / "data <1>.npz"), *arguments]) == 0
    return (folder / "out" / "report.html").read_text()


class Checker(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_needs_nothing_beside_itself(report: str) -> None:
    checker = Checker()
    checker.feed(report)
    assert checker.open == []
    assert checker.links
    assert all(link.startswith("data:image/") for link in checker.links)
    assert "script" not in checker.tags
    assert not re.search(r"@import|url\(", report)


def test_pictures_are_real_images(report: str) -> None:
    for mime, data in re.findall(r"data:image/([a-z+]+);base64,([^\"]+)", report):
        start = base64.b64decode(data)[:200]
        assert start.startswith(b"\x89PNG") if mime == "png" else b"<svg" in start or b"<?xml" in start


def test_it_holds_verdict_table_curves_novelty_operations_data_and_command(report: str) -> None:
    for heading in ("Result", "Learning curves", "What the operations became", "The data, as they were understood", "Repeat it"):
        assert f"<h2>{heading}</h2>" in report
    for space in ("backbone", "darts", "xd"):
        assert f"<td>{space}</td>" in report
    assert report.count("<h3>conv") == 2
    for alt in ("learning curves", "novelty per layer", "operator matrices of conv1", "reach of four outputs of conv2"):
        assert f'alt="{alt}"' in report
    assert "read as NHWC: images of 8 x 8, 3 channels" in report
    assert "--arch-lr 0.03" in report
    assert "XD helped" in report or "XD did not help" in report or "XD made no clear difference" in report


def test_names_of_files_cannot_inject_markup(report: str) -> None:
    assert "data &lt;1&gt;.npz" in report
    assert "data <1>" not in report


@pytest.mark.parametrize("stride", [1, 2])
def test_the_dense_operator_of_a_warm_start_is_the_convolution_by_the_mean_filter(stride: int) -> None:
    conv = nn.Conv1d(1, 1, 3, padding=1, stride=stride, bias=False)
    nn.init.constant_(conv.weight, 1 / 3)
    (operation,) = dense_operations(XDOperation.from_conv(conv, 12, depth=3), (12,))
    expected = conv(torch.eye(12)[:, None])[:, 0].T.detach()  # outputs by inputs
    np.testing.assert_allclose(operation.A, expected, atol=1e-6)


def test_the_dense_operators_of_two_dimensions_together_are_the_layer() -> None:
    operation = XDOperation.from_conv(nn.Conv2d(1, 1, 3, padding=1, bias=False), (5, 6), depth=3)
    nn.init.constant_(operation.weight, 1 / 9)
    with torch.no_grad():
        for _, parameter in operation.architecture():
            parameter += 0.05 * torch.randn_like(parameter)
        rows, columns = dense_operations(operation, (5, 6))
        x = torch.randn(1, 1, 5, 6)
        expected = (rows.A @ x[0, 0].numpy() @ columns.A.T).real
        np.testing.assert_allclose(operation(x)[0, 0], expected, rtol=1e-4, atol=1e-5)


def test_input_sizes_are_those_that_the_network_sees() -> None:
    network = nn.Sequential(
        XDOperation.from_conv(nn.Conv2d(1, 2, 3, padding=1, stride=2), (9, 8)),
        nn.ReLU(),
        XDOperation.from_conv(nn.Conv2d(2, 2, 3), (5, 4)),
    )
    assert input_sizes(network, torch.zeros(2, 1, 9, 8)) == {"0": (9, 8), "2": (5, 4)}
