"""What is exported computes what the network does, in real arithmetic, for any batch; what cannot be is refused, with no file."""

import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import xdops
from xdops import SpectralConv, XDConfig, XDError
from xdops.backbones.fno import operator_fno
from xdops.backbones.lenet import LeNet
from xdops.backbones.operator import operator_cnn
from xdops.backbones.request import Request
from xdops.backbones.resnet import ResNet20
from xdops.backbones.tcn import TCN
from xdops.backbones.windows import InWindows


def moved(model: nn.Module, example: Tensor, config: XDConfig) -> nn.Module:
    """Converted, and away from its start."""
    xdops.convert_(model, example, config)
    with torch.no_grad():
        for p in xdops.arch_parameters(model):
            p += 0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    return model


def images() -> tuple[nn.Module, Tensor]:
    layers = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 2)
    return moved(nn.Sequential(*layers), x := torch.randn(1, 2, 4, 4), XDConfig()), x


def fourier() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(SpectralConv(2, 3, (3,)), nn.ReLU(), nn.Conv1d(3, 1, 1)), torch.randn(2, 2, 8)


def causal() -> tuple[nn.Module, Tensor]:
    network = TCN(Request("classification", 2, 3, (9,)), levels=1, kernel=3, width=2)
    return moved(network, x := torch.randn(2, 2, 9), XDConfig(causal=True)), x


def any_length() -> tuple[nn.Module, Tensor]:
    network = TCN(Request("next-step", 2, 3, (9,)), levels=1, kernel=3, width=2)
    return moved(network, x := torch.randn(2, 2, 9), XDConfig(causal=True, shift_invariant=True, span=5)), x


@pytest.mark.parametrize("make", [fourier, causal])
def test_an_exported_program_computes_what_the_network_does(make, tmp_path: Path):
    torch.manual_seed(0)
    model, x = make()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    done = xdops.export(model, x, tmp_path / "net.pt2")
    assert done.error <= 1e-5
    assert str(tmp_path / "net.pt2") in str(done)
    program = torch.export.load(tmp_path / "net.pt2")
    assert not any("xdops" in str(node.target) or "fft" in str(node.target) for node in program.graph.nodes)
    more = torch.randn(7, *x.shape[1:])
    torch.testing.assert_close(program.module()(more), model.eval()(more), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


@pytest.mark.parametrize(("make", "dynamic"), [(images, (0,)), (any_length, (0, 2))])
def test_an_onnx_file_computes_what_the_network_does(make, dynamic, tmp_path: Path):
    onnxruntime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    torch.manual_seed(0)
    model, x = make()
    done = xdops.export(model, x, tmp_path / "net.onnx", dynamic, {"classes": "a b"})
    assert done.error <= 1e-5
    proto = onnx.load(tmp_path / "net.onnx")
    assert proto.opset_import[0].version >= 18
    assert {"classes": "a b"}.items() <= {p.key: p.value for p in proto.metadata_props}.items()
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    shape = list(x.shape)
    for dim in dynamic:
        assert isinstance(session.get_inputs()[0].shape[dim], str)
        shape[dim] += 4
    more = torch.randn(shape)
    (said,) = session.run(None, {session.get_inputs()[0].name: more.numpy()})
    torch.testing.assert_close(torch.from_numpy(said), model.eval()(more).detach(), rtol=1e-4, atol=1e-5)


IMAGE, STEPS = Request("classification", 1, 3, (16, 16)), Request("next-step", 2, 2, (9,))
SIGNAL, PLATE, CUBE = (Request("dense", 2, 1, grid) for grid in ((8,), (5, 6), (4, 3, 4)))
CIFAR = XDConfig(depth=3, b="trained", C="trained", kernel_size=5, boundary="wrap", max_pools=True)
CAUSAL = XDConfig(causal=True)

#: What the experiments use, of the smallest size; which of its layers are searched; the file; the dimensions that stay free.
NETWORKS = {
    "LeNet": (lambda: LeNet(IMAGE), IMAGE, CIFAR, "conv2", "net.onnx", (0,)),
    "ResNet-20": (lambda: ResNet20(IMAGE), IMAGE, XDConfig(b="trained", C="trained"), "blocks.3.conv1", "net.pt2", (0,)),
    "CNN 1d": (lambda: operator_cnn(SIGNAL, 2, 3), SIGNAL, XDConfig(domain="half"), "layers.0.operation", "net.pt2", (0,)),
    "CNN 2d": (lambda: operator_cnn(PLATE, 2, 3), PLATE, XDConfig(), "layers.0.operation", "net.onnx", (0,)),
    "CNN 3d": (lambda: operator_cnn(CUBE, 2, 3), CUBE, XDConfig(), "layers.0.operation", "net.pt2", (0,)),
    "FNO 1d": (lambda: operator_fno(SIGNAL, 2, 2), SIGNAL, XDConfig(), "layers.0.operation", "net.pt2", (0,)),
    "FNO 2d": (lambda: operator_fno(PLATE, 2, 2), PLATE, XDConfig(), "layers.0.operation", "net.pt2", (0,)),
    "FNO 3d": (lambda: operator_fno(CUBE, 2, 1), CUBE, XDConfig(), "layers.0.operation", "net.pt2", (0,)),
    "causal TCN": (lambda: TCN(STEPS, 1, 3, 2, dilated=False), STEPS, CAUSAL, "*conv1", "net.pt2", (0,)),
    "TCN in windows": (lambda: InWindows(TCN(STEPS, 1, 3, 2, dilated=False), 4), STEPS, XDConfig(), "*conv1", "net.onnx", (0, 2)),
}


def run_file(path: Path, x: Tensor) -> Tensor:
    if path.suffix == ".pt2":
        return torch.export.load(path).module()(x)
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    (said,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return torch.from_numpy(said)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_experiments_are_exported_after_training(name: str, tmp_path: Path):
    build, request, config, searched, file, free = NETWORKS[name]
    if file.endswith("onnx"):
        pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model, x = build(), torch.randn(2, *request.input_shape)
    xdops.convert_(model, x, config, lambda layer, _: fnmatchcase(layer, searched))
    optimizer = torch.optim.Adam(xdops.parameter_groups(model, lr=1e-2, arch_lr=1e-2))
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    assert all(moved > 0 for moved in xdops.novelty(model).values())
    assert xdops.export(model, x, tmp_path / file, free).error <= 1e-5
    more = torch.randn(5, *(n + 3 * (dim in free) for dim, n in enumerate(request.input_shape, start=1)))
    torch.testing.assert_close(run_file(tmp_path / file, more), model.eval()(more).detach(), rtol=1e-4, atol=1e-5)


def test_an_unmerged_shift_invariant_network_is_traced_for_any_batch_and_length():
    model, x = any_length()
    free = {0: torch.export.Dim("batch"), 2: torch.export.Dim("steps")}
    program = torch.export.export(model.eval(), (x,), dynamic_shapes=(free,), strict=False)
    more = torch.randn(5, 2, 14)
    torch.testing.assert_close(program.module()(more), model(more), rtol=1e-4, atol=1e-5)


class Complex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()


class FixedBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(2, -1)


class Rare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x)


@pytest.mark.parametrize(
    ("model", "name", "says"),
    [
        (nn.Conv1d(2, 2, 3), "net.bin", "ends in .onnx or .pt2"),
        (nn.Conv1d(2, 2, 3), "there.pt2", "which exists"),
        (nn.Conv1d(2, 2, 3), "nowhere/net.pt2", "a folder that does not exist"),
        (nn.Conv1d(7, 2, 3), "net.pt2", "an example input on which the model fails"),
        (Complex(), "net.pt2", "complex numbers"),
        (FixedBatch(), "net.pt2", "any size of batch"),
        (Rare(), "net.onnx", "bessel_j0.*which ONNX lacks.*pt2"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_no_file(model: nn.Module, name: str, says: str, tmp_path: Path):
    if name.endswith("onnx"):
        pytest.importorskip("onnxruntime")
    (tmp_path / "there.pt2").write_text("mine")
    with pytest.raises(XDError, match=says):
        xdops.export(model, torch.randn(2, 2, 8), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["there.pt2"]
    assert (tmp_path / "there.pt2").read_text() == "mine"


class NoNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 0 * 0


@pytest.mark.parametrize(
    ("model", "dynamic", "says"),
    [
        (nn.ReLU(), (3,), "from 0 to 2"),
        (nn.ReLU(), (-1,), "from 0 to 2"),
        (nn.ReLU(), ("batch",), "each item a whole number"),
        (moved(nn.Sequential(nn.Conv1d(2, 2, 3)), torch.zeros(2, 2, 8), XDConfig()), (0, 2), "XD-operations fix the grid"),
        (NoNumber(), (0,), "all NaN or infinite"),
    ],
)
def test_what_cannot_be_free_or_compared_is_refused(model: nn.Module, dynamic: tuple[int, ...], says: str, tmp_path: Path):
    with pytest.raises(XDError, match=says):
        xdops.export(model, torch.randn(2, 2, 8), tmp_path / "net.pt2", dynamic)
    assert not [*tmp_path.iterdir()]


def test_a_missing_onnxruntime_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(XDError, match=r"pip install 'xdops\[onnx\]'"):
        xdops.export(nn.Conv1d(2, 2, 3), torch.randn(2, 2, 8), tmp_path / "net.onnx")
