"""Tools that make a graph or a program of a converted network: compilers, exporters, torch.fx; lines of docs/compatibility.md."""

import copy
import io
from pathlib import Path

import pytest
import torch
from compilers import needs_compiler
from converted import CASES, KINDS, X, backbone, close, configured, gradients, network
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from xdops import (
    XDError,
    arch_parameters,
    convert_,
    merge_,
)
from xdops.spaces import darts_


@CASES
def test_compile(convert, merged):
    model = network(convert)
    if merged:
        model = model[:1]
        merge_(model)
    compiled = torch.compile(copy.deepcopy(model), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), model(X))
    if not merged:
        close(gradients(compiled), gradients(model))
        with torch.no_grad():  # a compiled network follows its parameters
            for net in (model, compiled):
                for p in arch_parameters(net):
                    p *= 1.01
        torch.testing.assert_close(compiled(X), model(X))


@needs_compiler
def test_compile_with_inductor():
    model = network()[:1]
    merge_(model)
    with torch._inductor.config.patch(compile_threads=1), torch.no_grad():
        compiled = torch.compile(copy.deepcopy(model), backend="inductor", fullgraph=True)
        torch.testing.assert_close(compiled(X), model(X), rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.filterwarnings("ignore")  # torch announces to itself what it will no longer do
def test_aot_inductor(tmp_path: Path):
    model = network()[:1]
    merge_(model)
    program = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    with torch._inductor.config.patch(compile_threads=1):
        file = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
    compiled = torch._inductor.aoti_load_package(file)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@CASES
@pytest.mark.filterwarnings("ignore")  # torch announces that TorchScript ends
def test_jit_trace(convert, merged):
    model = network(convert)
    if merged:
        merge_(model)
    traced = torch.jit.trace(model, X)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(traced(x), model(x))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(X), model(X))
    with torch.no_grad():  # the trace has the parameters, not what the network computed with them
        for p in arch_parameters(model):
            p *= 1.01
    torch.testing.assert_close(traced(X), model(X))


@CASES
def test_export_with_dynamic_batch(convert, merged):
    exported(convert, merged, strict=False)


def test_strict_export():
    exported(convert_, merged=False, strict=True)


def exported(convert, merged, strict):
    model = network(convert)
    if merged:
        model = model[:1]
        merge_(model)
    batch = {0: torch.export.Dim("batch", min=2, max=64)}
    program = torch.export.export(model, (X,), dynamic_shapes=(batch,), strict=strict)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(program.module()(x), model(x))


@KINDS
@pytest.mark.parametrize("merged", [False, True])
def test_fx_sees_operations_as_nodes(kind, merged):
    model = configured(kind)
    expected = model(X)
    if merged:
        merge_(model)
    traced = torch.fx.symbolic_trace(model)
    assert str(next(node.target for node in traced.graph.nodes if node.op == "call_module")).startswith("0")
    torch.testing.assert_close(traced(X), expected)
    torch.testing.assert_close(torch.fx.Interpreter(copy.deepcopy(traced)).run(X), expected)


def test_fx_sees_the_edges_of_other_spaces_as_nodes():
    model = backbone().eval()
    darts_(model, X)
    torch.testing.assert_close(torch.fx.symbolic_trace(model)(X), model(X))


def test_fx_does_not_see_through_an_operation_alone():
    with pytest.raises(XDError, match=r"an operation \(XDOperation\) as the whole"):
        torch.fx.symbolic_trace(configured()[0])


@KINDS
@pytest.mark.filterwarnings("ignore")  # torch announces that this moves to another package
def test_dynamic_quantization_of_the_other_layers(kind):
    model = nn.Sequential(configured(kind), nn.Flatten(), nn.Linear(8, 4))
    expected = model(X)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    assert type(quantized[2]) is not nn.Linear
    assert (quantized(X) - expected).norm() < 0.1 * expected.norm()


@KINDS
@pytest.mark.filterwarnings("ignore")  # torch announces that this moves to another package
def test_static_quantization_of_the_other_layers(kind):
    model = nn.Sequential(configured(kind), nn.Flatten(), nn.Linear(8, 4)).eval()
    expected = model(X)
    prepared = prepare_fx(model, torch.ao.quantization.get_default_qconfig_mapping("x86"), (X,))
    prepared(X)
    quantized = convert_fx(prepared)
    assert (quantized(X) - expected).norm() < 0.1 * expected.norm()
    assert type(quantized.get_submodule("2")) is not nn.Linear
