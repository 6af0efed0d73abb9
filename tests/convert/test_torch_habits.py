"""Converted networks in what people do with torch every day: training, averaging, hooks, files; lines of docs/compatibility.md."""

import copy
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.nn.utils import (
    clip_grad_norm_,
    fuse_conv_bn_eval,
    parameters_to_vector,
    parametrizations,
    parametrize,
    prune,
    vector_to_parameters,
)
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.package import PackageExporter, PackageImporter
from toy_networks import train_step

from xdops import XDConfig, XDError, arch_parameters, convert_, merge_, parameter_groups, resize_, revert_, unmerge_
from xdops.operations.catalogue.fourier import SpectralConv
from xdops.spaces import darts_

X = torch.randn(3, 2, 12, generator=torch.Generator().manual_seed(0))

CONFIGS = {
    "xd": XDConfig(),
    "half": XDConfig(domain="half", b="trained"),
    "filters": XDConfig(shift_invariant=True, span=6),
    "causal": XDConfig(causal=True),
}
KINDS = pytest.mark.parametrize("kind", CONFIGS)


def backbone() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3), nn.ReLU(), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))


def network(kind: str = "xd", moved: bool = True) -> nn.Sequential:
    model = backbone()
    convert_(model, X, CONFIGS[kind])
    if moved:
        train_step(model, X)
    return model.eval()


def gradients(model: nn.Module, x: Tensor = X) -> list[Tensor]:
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def close(a: list[Tensor], b: list[Tensor]) -> None:
    assert len(a) == len(b) > 0
    for s, t in zip(a, b, strict=True):
        torch.testing.assert_close(s, t, rtol=1e-4, atol=1e-4 * float(t.detach().abs().max()))


@KINDS
def test_optimizers(kind):
    """Whatever walks through the parameters: fused and foreach steps, clipped gradients, line searches."""
    trained = []
    for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        model = network(kind)
        optimizer = torch.optim.Adam(parameter_groups(model, lr=1e-2, arch_lr=1e-3), **options)
        for _ in range(2):
            optimizer.zero_grad()
            model(X).square().sum().backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        trained.append([p.detach() for p in model.parameters()])
    close(trained[0], trained[2])
    close(trained[1], trained[2])
    model = network(kind)
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
    model = network(kind)
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
    model = network(kind)
    expected = gradients(model)
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN, too
    try:
        with torch.autograd.set_detect_anomaly(True):
            close(gradients(model), expected)
    finally:
        torch.use_deterministic_algorithms(False)


@KINDS
def test_vectors_of_parameters(kind):
    model = network(kind)
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


@KINDS
@pytest.mark.parametrize("merged", [False, True])
def test_inputs_in_any_strides_and_of_any_batch(kind, merged):
    model = network(kind)
    expected = model(X)
    if merged:
        merge_(model)
    for x in (X.transpose(1, 2).contiguous().transpose(1, 2), torch.stack((X, X), -1)[..., 0], torch._neg_view(-X)):
        torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model(X[:1].expand(4, -1, -1)), expected[:1].expand(4, -1, -1))
    for batch in (1, 0):
        x = X[:batch].clone().requires_grad_()
        y = model(x)
        torch.testing.assert_close(y, expected[:batch])
        y.sum().backward()
        assert x.grad.shape == x.shape


STRANGE: dict[str, Callable[[], object]] = {
    "an input of type ndarray": lambda: X.numpy(),
    "an input that is torch.sparse_coo": X.to_sparse,
    "an input that is nested": lambda: torch.nested.nested_tensor([*X]),
    "an input on meta": lambda: X.to("meta"),
}


@KINDS
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("given", STRANGE)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_inputs_without_all_their_numbers_are_refused(kind, merged, given):
    model = network(kind)
    if merged and kind == "filters":
        pytest.skip("merged, it is a convolution of torch's own")
    if merged:
        merge_(model)
    with pytest.raises(XDError, match=given):
        model(STRANGE[given]())


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_complex_parameters_are_refused():
    with pytest.raises(XDError, match=r"parameters are torch\.complex64.*stored as pairs"):
        network().to(torch.complex64)(X.to(torch.complex64))


def test_inference_before_training():
    expected = gradients(network())
    model = network()
    with torch.inference_mode():
        model(X)
    close(gradients(model), expected)


@KINDS
def test_hooks_stay_with_their_place(kind):
    model, seen = network(kind), []
    handles = [layer.register_forward_hook(lambda *_: seen.append("after")) for layer in model]
    handles.append(model[0].register_forward_pre_hook(lambda *_: seen.append("before"), with_kwargs=True))
    model(X)
    told = list(seen)
    for verb in (merge_, unmerge_, merge_, revert_):
        verb(model)
        seen.clear()
        model(X)
        assert seen == told
    for handle in handles:
        handle.remove()
    seen.clear()
    model(X)
    assert seen == []


def test_hooks_stay_at_another_size():
    model, seen = network(moved=False), []
    model[0].register_forward_hook(lambda module, given, output: seen.append(output.shape[2]))
    resize_(model, torch.randn(1, 2, 16))
    seen.clear()
    model(torch.randn(1, 2, 16))
    assert seen == [16]


def test_a_layer_whose_files_have_hooks_is_left_alone():
    model = backbone()
    model[0].register_state_dict_post_hook(lambda *_: None)
    assert "hooks" in {row.name: row.why for row in convert_(model, X).left_alone}["0"]


@KINDS
def test_a_pruned_weight_is_merged_and_given_back_as_it_is_now(kind):
    model = network(kind)
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(X).square().sum().backward()
    optimizer.step()  # pruned layers compute their weight at the next call
    twin = copy.copy(model)  # the same layers
    merge_(twin)
    merged = twin(X)
    unmerge_(twin)
    torch.testing.assert_close(merged, twin(X))
    optimizer.step()
    expected = (model[0].weight_orig * model[0].weight_mask).detach()
    revert_(model)
    torch.testing.assert_close(model[0].weight.detach(), expected)


def test_a_pruned_weight_is_not_lost_at_another_size():
    model = network(moved=False)
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    with pytest.raises(XDError, match="0, whose weight is pruned"):
        resize_(model, torch.randn(1, 2, 16))


@KINDS
def test_spectral_norm_merges_in_training_mode(kind):
    model = backbone()
    for layer in (model[0], model[4]):
        parametrizations.spectral_norm(layer)
    convert_(model, X, CONFIGS[kind])
    train_step(model, X)
    expected = copy.deepcopy(model).eval()(X)
    model.train()
    merge_(model)
    unmerge_(model)  # looking at the weight has not changed it
    assert model.training
    torch.testing.assert_close(model.eval()(X), expected)


@KINDS
def test_a_parametrization_of_the_weight(kind):
    class LowRank(nn.Module):
        def __init__(self, w: Tensor) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(len(w), 1)), nn.Parameter(torch.full((1, w[0].numel()), 0.1))

        def forward(self, w: Tensor) -> Tensor:
            return w + (self.a @ self.b).view_as(w)

    model, plain = network(kind, moved=False), backbone().eval()
    for net in (model, plain):
        parametrize.register_parametrization(net[0], "weight", LowRank(net[0].weight))
    expected = plain(X)
    torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
    gradients(model)
    assert float(model[0].parametrizations.weight[0].a.grad.norm()) > 0
    merge_(model)
    torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
    revert_(model)
    torch.testing.assert_close(model(X), expected)


def test_frozen_parts_stay_frozen_at_another_size():
    model = network(moved=False)
    model[0].freeze("K", "M")
    model[0].plan = "spectral"
    before = [p.requires_grad for p in model.parameters()]
    resize_(model, torch.randn(1, 2, 16))
    assert [p.requires_grad for p in model.parameters()] == before
    assert (model[0].trained, model[0].plan) == ({"L"}, "spectral")


@KINDS
def test_data_parallel(kind):
    """Its replicas hold tensors where modules hold parameters; made here by hand, since it makes them for GPUs alone."""

    def replica(module: nn.Module) -> nn.Module:
        made = module._replicate_for_data_parallel()
        for name, p in module._parameters.items():
            if p is None:
                made._parameters[name] = None
            else:
                setattr(made, name, p.view_as(p))
        for name, child in module._modules.items():
            made._modules[name] = replica(child)
        return made

    model = network(kind)
    expected, wanted = model(X), gradients(model)
    torch.testing.assert_close(nn.DataParallel(model)(X), expected)
    model.zero_grad()
    y = replica(model)(X)
    torch.testing.assert_close(y, expected)
    y.square().sum().backward()
    close([p.grad for p in model.parameters() if p.grad is not None], wanted)


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


@pytest.mark.parametrize("kind", ["xd", "filters", "causal"])
def test_batch_norm_is_folded_into_the_weight(kind):
    model = network(kind)
    expected = model(X)
    fused = fuse_conv_bn_eval(model[0], model[1])
    torch.testing.assert_close(nn.Sequential(fused, *model[2:])(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shift_invariant", [False, True])
def test_batch_norm_is_not_folded_where_b_would_be_left_behind(shift_invariant):
    model = backbone()
    convert_(model, X, XDConfig(b="trained", shift_invariant=shift_invariant, span=6))
    model.eval()
    with pytest.raises(XDError, match="an operation with b, for a batch norm to be folded"):
        fuse_conv_bn_eval(model[0], model[1])
    model[0].weight = nn.Parameter(2 * model[0].weight.detach())  # anybody else may set it
    model(X)


@KINDS
@pytest.mark.filterwarnings("ignore")  # torch announces that this moves to another package
def test_dynamic_quantization_of_the_other_layers(kind):
    model = nn.Sequential(network(kind), nn.Flatten(), nn.Linear(8, 4))
    expected = model(X)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    assert type(quantized[2]) is not nn.Linear
    assert (quantized(X) - expected).norm() < 0.1 * expected.norm()


@KINDS
@pytest.mark.parametrize("merged", [False, True])
def test_fx_sees_operations_as_nodes(kind, merged):
    model = network(kind)
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
        torch.fx.symbolic_trace(network()[0])


@KINDS
@pytest.mark.filterwarnings("ignore")  # torch announces that this moves to another package
def test_static_quantization_of_the_other_layers(kind):
    model = nn.Sequential(network(kind), nn.Flatten(), nn.Linear(8, 4)).eval()
    expected = model(X)
    prepared = prepare_fx(model, torch.ao.quantization.get_default_qconfig_mapping("x86"), (X,))
    prepared(X)
    quantized = convert_fx(prepared)
    assert (quantized(X) - expected).norm() < 0.1 * expected.norm()
    assert type(quantized.get_submodule("2")) is not nn.Linear


@KINDS
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # torch to itself
def test_packages(kind, merged):
    model = network(kind)
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
    model = network(kind)
    expected = model(X)
    with torch.inference_mode():
        merge_(model)
    x = X.clone().requires_grad_()
    y = model(x)
    torch.testing.assert_close(y, expected)
    y.sum().backward()
    unmerge_(model)
    gradients(model)


@KINDS
def test_a_change_between_the_passes_is_noticed(kind):
    """As torch notices it: gradients of other numbers than those of the forward pass would be wrong."""
    model = network(kind)
    loss = model(X).square().sum()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1)
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


@KINDS
def test_several_graphs_wait_for_their_backward_passes(kind):
    model, inputs = network(kind), [X, 2 * X, -X]
    expected = [gradients(model, x) for x in inputs]
    losses = [model(x).square().sum() for x in inputs]
    for i in (1, 0, 2):
        model.zero_grad()
        losses[i].backward()
        close([p.grad for p in model.parameters() if p.grad is not None], expected[i])


def test_weights_tied_between_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.ReLU(), nn.Conv1d(2, 2, 3, padding=1))
    model[2].weight = model[0].weight
    expected = model(X)
    convert_(model, X)
    torch.testing.assert_close(model(X), expected)
    train_step(model, X)
    assert model[0].weight is model[2].weight
    expected = model(X)
    merge_(model)
    torch.testing.assert_close(model(X), expected)
    revert_(model)
    assert model[0].weight is model[2].weight


def test_a_layer_of_two_models():
    layer = nn.Conv1d(2, 2, 3, padding=1)
    first, second = nn.Sequential(layer, nn.ReLU()), nn.Sequential(nn.Conv1d(2, 2, 1), layer)
    expected = first(X), second(X)
    convert_(first, X)
    assert second[1] is layer
    convert_(second, X)
    torch.testing.assert_close((first(X), second(X)), expected)
    assert first[0].weight is second[1].weight
    revert_(first)
    revert_(second)
    assert first[0] is second[1] is layer


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_low_rank_adapter_beside_a_layer(order):
    class Adapted(nn.Module):
        def __init__(self, base: nn.Module) -> None:
            super().__init__()
            self.base, self.down = base, nn.Parameter(torch.randn(1, base.in_channels, *base.kernel_size))
            self.up = nn.Parameter(torch.randn(base.out_channels, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            base = self.base
            return base(x) + F.conv1d(F.conv1d(x, self.down, None, base.stride, base.padding, base.dilation), self.up)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1))
    if order == "after":
        convert_(model, X)
    model[0] = Adapted(model[0])
    expected = model(X)
    if order == "before":
        assert [row.name for row in convert_(model, X).converted] == ["0.base"]
    torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
    merge_(model)
    torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("merged", [False, True])
def test_inputs_of_no_length_are_refused(merged):
    model = nn.Sequential(nn.ConvTranspose1d(2, 3, 4, stride=2))
    convert_(model, X, XDConfig(perturb=0.01))
    if merged:
        merge_(model)
    with pytest.raises(XDError, match=r"an input of length 0.*at least 1"):
        model(X[..., :0])


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
    model = network(moved=False)
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
    model = network(kind, moved=False)
    assert not model.load_state_dict(trained.state_dict(), strict=False).unexpected_keys
    torch.testing.assert_close(model(X), trained.eval()(X), rtol=1e-4, atol=1e-4)
