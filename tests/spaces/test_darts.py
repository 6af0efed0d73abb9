"""The relaxed discrete space over the same toy networks, and the table of spaces."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from toy_networks import CASES, network, run, train_step

from xdops import XDConfig, XDError, XDOperation, arch_parameters, novelty, revert_, weight_parameters
from xdops.operations.catalogue.fourier import SpectralConv
from xdops.spaces import OPERATIONS, SPACES, DartsEdge, SpaceSettings, apply, darts_, discretize_

#: Networks in which every layer is an operation of the set, or none can be an edge.
EXACT = [name for name in CASES if name not in ("batch norm, dropout and pools", "average pools 1d and 3d", "containers")]
CHOOSE = XDConfig(skips=True, max_pools=True)
exact_case = pytest.mark.parametrize("name", EXACT)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def only_edge(model: nn.Module) -> DartsEdge:
    (edge,) = [m for m in model.modules() if isinstance(m, DartsEdge)]
    return edge


@exact_case
def test_without_perturbation_the_space_starts_as_the_backbone(name):
    model, example = network(name)
    expected = run(model.eval(), example)
    report = darts_(model, example, CHOOSE, perturb=0.0)
    torch.testing.assert_close(run(model, example), expected, rtol=1e-12, atol=1e-12)
    assert report.error < 1e-12
    assert not any("closest" in row.note for row in report.converted)
    for row in report.left_alone:
        assert any(reason in row.why for reason in ("transposed", "computed", "never reaches"))


@pytest.mark.parametrize("name", CASES)
def test_any_network_trains_copies_saves_and_reverts(name):
    model, example = network(name)
    report = darts_(model, example, CHOOSE)
    if not report.converted:
        return
    assert all(away == 0 for away in novelty(model).values())
    ids = {id(p) for p in (*weight_parameters(model), *arch_parameters(model))}
    assert ids == {id(p) for p in model.parameters()}
    assert len(arch_parameters(model)) == len(report.converted)
    train_step(model, example)
    away = novelty(model)
    assert all(0 < value < 1 for value in away.values())
    fresh, _ = network(name)
    darts_(fresh, example, CHOOSE)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    for twin in (fresh, copy.deepcopy(model)):
        assert torch.equal(run(twin.eval(), example), run(model.eval(), example))
        assert novelty(twin) == away
    assert not revert_(model).exact
    assert not any(isinstance(m, DartsEdge) for m in model.modules())
    run(model, example)


@exact_case
def test_an_untouched_biased_space_gives_the_same_objects_back(name):
    model, example = network(name)
    before = dict(model.named_modules())
    expected = run(model.eval(), example)
    darts_(model, example, CHOOSE, perturb=0.0)
    assert revert_(model).exact
    assert all(m is before[n] for n, m in model.named_modules())
    assert torch.equal(run(model, example), expected)


@pytest.mark.parametrize(
    ("layer", "own"),
    [
        (nn.Conv2d(3, 4, 3, padding=1), "conv_3"),
        (nn.Conv2d(3, 4, 1), "conv_3"),
        (nn.Conv2d(3, 4, (5, 3)), "conv_5"),
        (nn.Conv2d(3, 4, 4), "conv_5"),
        (nn.Conv2d(3, 4, 3, dilation=2), "dil_conv_3"),
        (nn.Conv2d(3, 4, 5, dilation=2, padding=4), "dil_conv_5"),
        (nn.Conv2d(3, 4, 3, dilation=4, padding=4), "dil_conv_5"),
        (nn.MaxPool2d(3, 2, 1), "max_pool_3"),
        (nn.AvgPool2d(3, 1), "avg_pool_3"),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "avg_pool_3"),
        (nn.Identity(), "identity"),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("causal", [False, True])
def test_the_backbones_operation_is_found_in_the_set(layer, own, causal):
    x = torch.randn(2, 3, 11, 12)
    model = nn.Sequential(copy.deepcopy(layer))
    expected = model(x)
    config = XDConfig(skips=True, max_pools=True, causal=causal)
    report = darts_(model, x, config, perturb=0.3)
    edge = only_edge(model)
    mixture = dict(zip(OPERATIONS, edge.mixture.tolist(), strict=True))
    assert report.converted[0].note == ""
    assert mixture.pop(own) == pytest.approx(0.7)
    assert list(mixture.values()) == pytest.approx([0.3 / 7] * 7)
    torch.testing.assert_close(edge.operation(own, x), expected)


@pytest.mark.parametrize(
    ("layer", "own"),
    [
        (nn.Conv1d(2, 2, 7, padding=3), "conv_5"),
        (nn.Conv1d(2, 2, 3, dilation=5, padding=5), "dil_conv_3"),
        (nn.MaxPool1d(2), "max_pool_3"),
        (nn.AvgPool1d(4, 2), "avg_pool_3"),
    ],
    ids=str,
)
def test_an_operation_outside_of_the_set_starts_as_the_closest_and_the_report_says_so(layer, own):
    model, x = nn.Sequential(copy.deepcopy(layer)), torch.randn(2, 2, 24)
    shape, weights = model(x).shape, copy.deepcopy(model.state_dict())
    report = darts_(model, x, CHOOSE, perturb=0.0)
    assert report.converted[0].note == f"closest operation: {own}"
    assert report.converted[0].error > 1e-3
    assert model(x).shape == shape
    revert_(model)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("channels", [(2, 2), (2, 5), (5, 2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_an_edge_is_the_weighted_sum_of_its_operations(dims, channels, stride):
    kinds = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    model, x = nn.Sequential(kinds[dims](*channels, 3, stride, 1)).double(), torch.randn(2, channels[0], *(9, 8, 7)[:dims]).double()
    shape = model(x).shape
    darts_(model, x, perturb=0.875)
    edge = only_edge(model)
    torch.testing.assert_close(edge.mixture, torch.full((8,), 1 / 8).double(), rtol=1e-6, atol=0)
    edge.weight.data.normal_()
    edge.logits.data.normal_()
    parts = [edge.operation(name, x) for name in OPERATIONS]
    assert all(part.shape == shape for part in parts)
    torch.testing.assert_close(edge(x), sum(w * part for w, part in zip(edge.mixture, parts, strict=True)))


def test_operations_are_what_torch_computes_with_padding_that_keeps_the_size():
    model, x = nn.Sequential(nn.Conv2d(3, 3, 5, padding=2, bias=False)).double(), torch.randn(2, 3, 8, 9).double()
    darts_(model, x)
    edge = only_edge(model)
    w5, w3 = edge.weight, edge.weight[..., 1:4, 1:4]
    expected = {
        "zero": torch.zeros_like(x), "identity": x, "max_pool_3": F.max_pool2d(x, 3, 1, 1), "avg_pool_3": F.avg_pool2d(x, 3, 1, 1),
        "conv_3": F.conv2d(x, w3, padding=1), "conv_5": F.conv2d(x, w5, padding=2),
        "dil_conv_3": F.conv2d(x, w3, padding=2, dilation=2), "dil_conv_5": F.conv2d(x, w5, padding=4, dilation=2),
    }  # fmt: skip
    assert tuple(expected) == OPERATIONS
    for name, value in expected.items():
        torch.testing.assert_close(edge.operation(name, x), value)


def test_causal_edges_never_see_the_future():
    model, x = nn.Sequential(nn.Conv1d(2, 2, 2, padding=4, dilation=4)).double(), torch.randn(1, 2, 16).double()
    darts_(model, x, XDConfig(causal=True), perturb=0.875)
    only_edge(model).weight.data.normal_()
    later = x.clone()
    later[..., 9:] += 1
    assert torch.equal(model(x)[..., :9], model(later)[..., :9])
    assert not torch.allclose(model(x)[..., 9], model(later)[..., 9])


def test_rounding_keeps_the_strongest_operation_of_every_edge_alone_and_for_good():
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv1d(3, 2, 3, padding=1)), torch.randn(2, 2, 9)
    darts_(model, x)
    edges = [m for m in model.modules() if isinstance(m, DartsEdge)]
    with torch.no_grad():
        edges[0].logits[OPERATIONS.index("dil_conv_5")] = 9.0
    expected = edges[1].operation("conv_3", edges[0].operation("dil_conv_5", x).relu())
    assert discretize_(model) == {"0": "dil_conv_5", "2": "conv_3"}
    torch.testing.assert_close(model(x), expected)
    assert not any(p.requires_grad for p in arch_parameters(model))
    with pytest.raises(XDError, match="without mixtures"):
        discretize_(nn.Sequential(nn.Conv1d(2, 3, 3)))


def test_a_shortcut_between_unlike_shapes_is_an_identity():
    class OptionA(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.pad(x[:, :, ::2], (0, 0, 1, 1))

    model, x = nn.Sequential(OptionA()), torch.randn(2, 2, 9)
    expected = model(x)
    darts_(model, x, XDConfig(shortcuts=("0",)), perturb=0.0)
    torch.testing.assert_close(model(x), expected)


def test_trained_weights_come_back_into_the_layer():
    conv, x = nn.Conv1d(2, 3, 3, padding=1), torch.randn(2, 2, 8)
    model = nn.Sequential(conv)
    darts_(model, x, perturb=0.0)
    optimizer = torch.optim.SGD(weight_parameters(model), lr=0.1)
    model(x).square().mean().backward()
    optimizer.step()
    trained = model(x)
    assert revert_(model).exact
    assert model[0] is conv
    torch.testing.assert_close(model(x), trained)


@pytest.mark.parametrize("name", SPACES)
def test_every_space_is_one_call(name):
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.MaxPool1d(3, 2, 1)), torch.randn(2, 2, 8)
    report = apply(name, model, x, SpaceSettings(CHOOSE, darts_perturb=0.5))
    kind = {"backbone": nn.Conv1d, "darts": DartsEdge, "xd": XDOperation}[name]
    assert type(model[0]) is kind
    assert len(report.converted) == (0 if name == "backbone" else 2)
    assert bool(arch_parameters(model)) == (name != "backbone")
    if name != "backbone":
        train_step(model, x)


def test_all_spaces_choose_the_same_layers():
    def names(space: str) -> list[str]:
        model, example = network("containers")
        settings = SpaceSettings(XDConfig(pools=False), filter_fn=lambda name, m: name != "stack.0")
        return [row.name for row in apply(space, model, example, settings).converted]

    assert names("xd") == names("darts") == ["stack.1", "named.a", "block.0", "block.2"]


def test_unknown_spaces_and_weights_outside_of_the_simplex_are_refused():
    model, x = nn.Sequential(nn.Conv1d(1, 1, 1)), torch.randn(1, 1, 4)
    with pytest.raises(XDError, match="backbone, darts, xd"):
        apply("nas", model, x)
    for perturb in (-0.1, 1.1, float("nan")):
        with pytest.raises(XDError):
            darts_(model, x, perturb=perturb)
    assert type(model[0]) is nn.Conv1d


def test_layers_that_cannot_be_an_edge_say_why():
    for name, reason in (("transposed 1d", "transposed"), ("weight norm", "computed")):
        model, example = network(name)
        report = darts_(model, example)
        assert reason in report.left_alone[0].why
        assert not any(isinstance(m, DartsEdge) for m in model.modules())
    assert parametrize.is_parametrized(model[0], "weight")


def test_a_fourier_layer_is_left_alone_since_nothing_in_the_set_is_like_it():
    report = darts_(nn.Sequential(SpectralConv(1, 1, (2,))), torch.randn(2, 1, 8))
    assert [row.why for row in report.left_alone] == ["the DARTS set has no Fourier layer"]
