"""Converted networks in what people do with torch every day: training, averaging, files; lines of docs/compatibility.md."""

import copy
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from converted import CONFIGS, KINDS, X, backbone, close, configured, gradients
from torch import Tensor, nn
from torch.nn.utils import (
    clip_grad_norm_,
    parameters_to_vector,
    vector_to_parameters,
)
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.package import PackageExporter, PackageImporter
from toy_networks import train_step

from xdops import XDConfig, arch_parameters, convert_, merge_, parameter_groups, resize_, unmerge_
from xdops.operations.catalogue.fourier import SpectralConv


@KINDS
def test_optimizers(kind):
    """Whatever walks through the parameters: fused and foreach steps, clipped gradients, line searches."""
    trained = []
    for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        model = configured(kind)
        optimizer = torch.optim.Adam(parameter_groups(model, lr=1e-2, arch_lr=1e-3), **options)
        for _ in range(2):
            optimizer.zero_grad()
            model(X).square().sum().backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        trained.append([p.detach() for p in model.parameters()])
    close(trained[0], trained[2])
    close(trained[1], trained[2])
    model = configured(kind)
    searching = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        searching.zero_grad()
        loss = model(X).square().mean()
        loss.backward()
        return loss

    first = float(closure())
    searching.step(closure)
    assert float(closure()) < first


@KINDS
def test_scaled_accumulated_and_repeated_gradients(kind):
    model = configured(kind)
    expected = gradients(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    model.zero_grad()
    for x in X:  # one example at a time
        scaler.scale(model(x[None]).square().sum()).backward()
    scaler.unscale_(optimizer)
    close([p.grad for p in model.parameters() if p.grad is not None], expected)
    model.zero_grad()
    loss = model(X).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    close([p.grad for p in model.parameters() if p.grad is not None], [2 * g for g in expected])


@KINDS
def test_deterministic_algorithms_and_anomaly_detection(kind):
    model = configured(kind)
    expected = gradients(model)
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN, too
    try:
        with torch.autograd.set_detect_anomaly(True):
            close(gradients(model), expected)
    finally:
        torch.use_deterministic_algorithms(False)


@KINDS
def test_vectors_of_parameters(kind):
    model = configured(kind)
    expected, wanted = model(X), gradients(model)
    vector = torch.cat((torch.zeros(1), parameters_to_vector(model.parameters()).detach()))
    vector_to_parameters(vector[1:], model.parameters())  # complex numbers may begin at odd places now
    torch.testing.assert_close(model(X), expected)
    close(gradients(model), wanted)


@pytest.mark.parametrize("decay", [0.9, 0.999])
def test_averages_of_buffers_too(decay):
    torch.manual_seed(0)
    model = nn.Sequential(SpectralConv(2, 3, (20,)), nn.GELU(), nn.Conv1d(3, 2, 3))
    x = torch.randn(2, 2, 48)
    convert_(model, x)
    train_step(model, x)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    for _ in range(5):
        average.update_parameters(model)
    torch.testing.assert_close(average.eval()(x), model.eval()(x))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@KINDS
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_default_dtype(kind, dtype):
    model = backbone().eval()
    expected = model(X)
    with default_dtype(dtype):
        convert_(model, X, CONFIGS[kind])
        torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
        gradients(model)
        merge_(model)
        torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)


def test_inference_before_training():
    expected = gradients(configured())
    model = configured()
    with torch.inference_mode():
        model(X)
    close(gradients(model), expected)


def test_frozen_parts_stay_frozen_at_another_size():
    model = configured(moved=False)
    model[0].freeze("K", "M")
    model[0].plan = "spectral"
    before = [p.requires_grad for p in model.parameters()]
    resize_(model, torch.randn(1, 2, 16))
    assert [p.requires_grad for p in model.parameters()] == before
    assert (model[0].trained, model[0].plan) == ({"L"}, "spectral")


def test_safetensors(tmp_path: Path):
    torch.manual_seed(0)
    model = nn.Sequential(SpectralConv(2, 3, (4,)), nn.Conv1d(3, 2, 3, padding=1))
    convert_(model, X)
    train_step(model, X)
    twin = copy.deepcopy(model)
    train_step(twin, X)
    safetensors.torch.save_model(model, str(tmp_path / "net"))
    safetensors.torch.load_model(twin, str(tmp_path / "net"))
    assert torch.equal(twin(X), model(X))


def test_a_file_of_an_earlier_version_whose_columns_were_buffers():
    torch.manual_seed(0)
    model = nn.Sequential(SpectralConv(2, 3, (4,)), nn.GELU())
    convert_(model, X)
    state = model.state_dict() | {"0.weight_columns_0": torch.arange(4)}
    model.load_state_dict(state)
    assert "0.weight_columns_0" not in model.state_dict()


@KINDS
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # torch to itself
def test_packages(kind, merged):
    model = configured(kind)
    if merged:
        merge_(model)
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.extern(["xdops.**", "torch.**"])
        exporter.save_pickle("net", "model.pkl", model)
    file.seek(0)
    assert torch.equal(PackageImporter(file).load_pickle("net", "model.pkl")(X), model(X))


@KINDS
def test_merging_in_inference_mode(kind):
    """What is made there meets autograd later."""
    model = configured(kind)
    expected = model(X)
    with torch.inference_mode():
        merge_(model)
    x = X.clone().requires_grad_()
    y = model(x)
    torch.testing.assert_close(y, expected)
    y.sum().backward()
    unmerge_(model)
    gradients(model)


def test_a_fourier_layer_in_half_precision():
    torch.manual_seed(0)
    model = nn.Sequential(SpectralConv(2, 3, (4,)))
    expected = model(X)
    for frozen in (False, True):  # by its architecture, and as the layer itself
        twin = copy.deepcopy(model)
        convert_(twin, X, XDConfig(trained=() if frozen else ("K", "L", "M")))
        for net in (model, twin):
            half = copy.deepcopy(net).bfloat16()(X.bfloat16())
            assert half.dtype == torch.bfloat16
            assert (half - expected).norm() < 0.05 * expected.norm()


def test_initialising_by_type_does_not_reach_operations():
    """As the page says: initialise first, then convert."""
    model = configured(moved=False)
    before = [p.clone() for p in arch_parameters(model)]
    model.apply(lambda m: nn.init.zeros_(m.weight) if isinstance(m, nn.Conv1d) else None)
    assert all(torch.equal(p, q) for p, q in zip(arch_parameters(model), before, strict=True))
    assert float(F.relu(model[0].weight).sum()) > 0


@KINDS
def test_a_checkpoint_of_the_backbone(kind):
    trained = backbone()
    with torch.no_grad():
        for p in trained.parameters():
            p.add_(0.1)
    model = configured(kind, moved=False)
    assert not model.load_state_dict(trained.state_dict(), strict=False).unexpected_keys
    torch.testing.assert_close(model(X), trained.eval()(X), rtol=1e-4, atol=1e-4)
