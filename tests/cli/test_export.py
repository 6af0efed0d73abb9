"""`xdops export`: the file does to arrays of the data what `xdops predict` does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from xdops.cli.main import main

FLAGS = ["--seeds", "1", "--epochs", "1", "--depth", "1", "1", "1", "-q"]
NETWORK = """
from torch import nn
def build(request):
    sizes = dict(kernel_size=3, padding=1)
    layers = [nn.Conv1d(request.in_channels, 4, **sizes), nn.ReLU(), nn.Conv1d(4, request.outputs, **sizes)]
    if request.kind == "classification":
        layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    return nn.Sequential(*layers)
"""
rng = np.random.default_rng(0)
SIGNALS = 5 + 3 * rng.normal(size=(24, 10, 2)).astype(np.float32)  # NLC, in units of their own


def test_a_file_predicts_in_the_datas_own_layout_and_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("networks.py").write_text(NETWORK)
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    np.savez("data.npz", x=SIGNALS, y=np.arange(24) % 2)
    own = ["--backbone", "networks:build"]
    assert main(["search", "data.npz", "--spaces", "xd", "--layout", "NLC", "--out", "run", *own, *FLAGS]) == 0
    assert main(["predict", "run", "data.npz", "-o", "p.npz", *own]) == 0
    capsys.readouterr()
    assert main(["export", "run", "net.pt2", *own]) == 0
    assert "xd, seed 0, for float32 inputs (any, 10, 2)\nnet.pt2" in capsys.readouterr().out
    said = torch.export.load("net.pt2").module()(torch.from_numpy(SIGNALS))
    expected = np.load("p.npz")["probability"]
    np.testing.assert_allclose(said.detach().numpy(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    files = sorted(path.name for path in tmp_path.iterdir())
    assert main(["export", "run", "net.pt2", *own]) == 2
    assert main(["export", "run", "net.h5", *own]) == 2
    assert "which exists" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == files
