"""`xdops search --crop`: large inputs are trained on in windows, and predicted at any size."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from xdops.cli.main import main
from xdops.data.own import DataSettings, task_from_arrays
from xdops.experiments.finished import Finished
from xdops.search import Crops, Tiles

FLAGS = [
    "--spaces",
    "backbone,xd",
    "--seeds",
    "1",
    "--epochs",
    "2",
    "--batch-size",
    "4",
    "--depth",
    "1",
    "1",
    "1",
    "--crop",
    "12",
    "-q",
]


def maps(n: int, height: int, width: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Two channels in, their smoothed sum out."""
    x = np.random.default_rng(seed).normal(size=(n, 2, height, width))
    total = x.sum(axis=1)
    return {"x": x, "y": 3 + (total + np.roll(total, 1, axis=1) + np.roll(total, 1, axis=2)) / 3}


def stripes(n: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Fast or slow waves: what they are shows in any window."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.arange(length) / 40
    x = np.sin(2 * np.pi * (2 + 6 * y[:, None]) * t + rng.uniform(0, 6, (n, 1)))
    return {"x": x[:, None], "y": np.array(["slow", "fast"])[y]}


def save(path: Path, arrays: dict[str, np.ndarray]) -> str:
    np.savez(path, **arrays)
    return str(path)


NETWORK = """
from torch import nn
def build(request):
    sizes = dict(kernel_size=3, padding=1)
    return nn.Sequential(nn.Conv2d(request.in_channels, 4, **sizes), nn.ReLU(), nn.Conv2d(4, request.outputs, **sizes))
"""


def test_maps_are_trained_on_in_crops_and_predicted_whole_and_at_other_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "two_layers_on_maps.py").write_text(NETWORK)
    data, out = save(tmp_path / "data.npz", maps(12, 20, 27)), str(tmp_path / "out")
    assert main(["search", data, "--out", out, *FLAGS, "--backbone", "two_layers_on_maps:build"]) == 0
    printed = capsys.readouterr().out
    assert "images of 20 x 27, 2 channels" in printed
    assert "random crops of 12 x 12" in printed
    assert "--crop 12" in json.loads((tmp_path / "out" / "settings.json").read_text())["command"]
    for height, width in ((20, 27), (33, 12), (9, 40)):
        new, found = save(tmp_path / "new.npz", {"x": maps(3, height, width, 1)["x"]}), tmp_path / "found.npz"
        trusted = ["--backbone", "two_layers_on_maps:build"]
        assert main(["predict", out, new, "-o", str(found), "--space", "xd", *trusted]) == 0
        assert np.load(found)["prediction"].shape == (3, 1, height, width)

    finished = Finished.open(tmp_path / "out", allowed="two_layers_on_maps:build")
    network, reading = finished.best("xd", 0), finished.reading
    inputs = reading.inputs(np.load(new)["x"], "x")
    with torch.no_grad():
        expected = Tiles((12, 12), 3)(network, inputs)
    assert reading.y_scaling is not None
    np.testing.assert_allclose(np.load(found)["prediction"], reading.y_scaling.undo(expected).numpy(), rtol=1e-5, atol=1e-5)


def test_a_class_is_the_mean_over_tiles(tmp_path: Path) -> None:
    data, out = save(tmp_path / "data.npz", stripes(20, 50)), str(tmp_path / "out")
    assert main(["search", data, "--out", out, *FLAGS, "--backbone", "small"]) == 0
    new, found = save(tmp_path / "new.npz", {"x": stripes(4, 90, 1)["x"]}), tmp_path / "found.npz"
    assert main(["predict", out, new, "-o", str(found)]) == 0
    got = np.load(found)
    assert set(got["label"]) <= {"slow", "fast"}
    np.testing.assert_allclose(got["probability"].sum(axis=1), 1, rtol=1e-5)


def test_other_channels_are_refused_at_any_size(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    data, out = save(tmp_path / "data.npz", stripes(20, 50)), str(tmp_path / "out")
    assert main(["search", data, "--out", out, *FLAGS, "--backbone", "small", "--epochs", "1", "--spaces", "backbone"]) == 0
    new = save(tmp_path / "new.npz", {"x": np.zeros((4, 3, 50))})
    assert main(["predict", out, new, "-o", str(tmp_path / "found.npz")]) == 2
    said = "".join(capsys.readouterr().err.split("\n"))
    assert "(3, 50)" in said
    assert "channels: 1, as in training, on a grid of any size" in said


def test_sides_shorter_than_the_crop_are_seen_whole() -> None:
    task = task_from_arrays({"all": tuple(maps(12, 10, 40).values())}, "maps", DataSettings(crop=16))  # type: ignore[dict-item]
    assert task.request.spatial == (10, 16)
    assert isinstance(task.problem.train, Crops)
    batch = task.problem.train.batch(torch.arange(3), torch.Generator().manual_seed(0))
    assert batch.x.shape == (3, 2, 10, 16)
    assert batch.y.shape == (3, 1, 10, 16)


def test_the_embedded_digits_are_too_small_to_crop(capsys: pytest.CaptureFixture) -> None:
    assert main(["search", "digits", "--crop", "8"]) == 2
    assert "--crop 8 with digits" in capsys.readouterr().err
