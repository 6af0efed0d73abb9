"""A merged operation is a plain module: it computes the same, and every tool takes it as it takes any module."""

import copy
import io
import pickle

import pytest
import torch
from moved_operations import KINDS, assert_close, moved
from torch import nn

from xdops import XDOperation
from xdops.operations.catalogue.fourier import SpectralConv, from_spectral_conv
from xdops.operations.merged import MergedSpectrum, MergedTaps

MERGED = {
    **{kind: lambda kind=kind: moved(kind) for kind in KINDS},
    "joined": lambda: (moved("2d")[0], torch.randn(3, 2, 7, 5)),
    "long": lambda: (XDOperation.from_conv(nn.Conv1d(2, 2, 5, padding=2, stride=3), 600, C="trained"), torch.randn(2, 2, 599)),
    "fourier": lambda: (from_spectral_conv(SpectralConv(2, 3, (3, 2)), (8, 6)), torch.randn(3, 2, 8, 6)),
}


def pair(kind: str) -> tuple[XDOperation, nn.Module, torch.Tensor]:
    op, x = MERGED[kind]()
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.01 * torch.randn_like(p))
    return op, op.merged(), x


@pytest.mark.parametrize("kind", MERGED)
def test_it_computes_the_same_as_it_is_traced_pickled_and_copied(kind: str):
    op, merged, x = pair(kind)
    assert isinstance(merged, MergedTaps if kind == "causal" else MergedSpectrum)
    expected = [op(x).detach()]
    assert_close([merged(x)], expected)
    assert_close([copy.deepcopy(merged)(x), pickle.loads(pickle.dumps(merged))(x)], expected * 2)
    traced = torch.jit.trace(merged, x, check_trace=False)
    assert_close([traced(x), traced(x[:1])], [*expected, expected[0][:1]])
    double = merged.to(torch.float64)(x.double()).float()
    assert_close([double], expected)


@pytest.mark.parametrize("kind", ["2d", "long", "causal"])
def test_it_exports_with_a_dynamic_batch_and_compiles(kind: str):
    _, merged, x = pair(kind)
    program = torch.export.export(merged, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False)
    torch._dynamo.reset()
    compiled = torch.compile(merged, backend="aot_eager", fullgraph=True)
    for y in (x, torch.cat((x, x))):
        assert_close([program.module()(y), compiled(y)], [merged(y)] * 2)


def test_it_runs_under_autocast_and_follows_a_loaded_state():
    _, merged, x = pair("2d")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = merged(x)
    assert (y - merged(x)).abs().max() < 0.05 * merged(x).abs().max()
    other = copy.deepcopy(merged)
    other.load_state_dict({name: 0 * value for name, value in merged.state_dict().items()})
    assert other(x).count_nonzero() == 0
    assert other(x[:1]).count_nonzero() == 0


def test_while_untouched_it_is_the_convolution_itself():
    for conv in (nn.Conv2d(2, 4, 3, padding="same", groups=2, padding_mode="circular"), nn.ConvTranspose2d(2, 3, 3, stride=2)):
        x = torch.randn(2, 2, 8, 6)
        merged = XDOperation.from_conv(conv, (8, 6)).merged()
        assert type(merged) is type(conv)
        assert torch.equal(merged(x), conv(x))


@pytest.mark.parametrize("kind", ["1d", "2d", "causal", "long", "fourier"])
def test_the_old_onnx_exporter_takes_it_too(kind: str):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    _, merged, x = pair(kind)
    file = io.BytesIO()
    torch.onnx.export(
        merged.eval(), (x,), file, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )
    session = onnxruntime.InferenceSession(file.getvalue())
    for given in (x, torch.cat([x, x])):
        assert_close([torch.from_numpy(session.run(None, {"x": given.numpy()})[0])], [merged(given)])


def test_an_onnx_file_takes_any_batch():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    _, merged, x = pair("2d")
    file = io.BytesIO()
    shapes = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(merged, (x,), file, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = onnxruntime.InferenceSession(file.getvalue())
    name = session.get_inputs()[0].name
    for y in (x, torch.cat((x, x))):
        assert_close([torch.from_numpy(session.run(None, {name: y.numpy()})[0])], [merged(y)])
