"""What the config, the filter and the example input decide, and what is left alone or refused."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from xdops import XDConfig, XDError, XDOperation, arch_parameters, convert_, novelty, revert_, weight_parameters
from xdops.convert import merge_, unmerge_


@pytest.fixture(autouse=True)
def double() -> None:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def converted(model: nn.Module, x: Tensor, config: XDConfig, **options) -> tuple[XDOperation, float]:
    """The only operation of a converted model, and how far the model's output moved."""
    expected = model.eval()(x)
    convert_(model, x, config, **options)
    (op,) = [m for m in model.modules() if isinstance(m, XDOperation)]
    return op, (model(x) - expected).abs().max().item()


def why(model: nn.Module, x, config: XDConfig = XDConfig(), **options) -> str:  # noqa: B008
    """Why the only layer of a model is left alone."""
    before = list(model.modules())
    report = convert_(model, x, config, **options)
    assert not report.converted
    assert all(a is b for a, b in zip(before, model.modules(), strict=True))
    (row,) = report.left_alone
    assert row.why in str(report)
    return row.why


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("kernel", [(3, 1), (2, 4), (7, 3)])
def test_grown_filters_compute_the_same(mode, kernel):
    model = nn.Sequential(nn.Conv2d(3, 4, kernel, stride=2, padding=1, padding_mode=mode))
    op, moved = converted(model, torch.randn(2, 3, 9, 12), XDConfig(kernel_size=5))
    assert moved < 1e-12
    assert op.kernel_size == tuple(k if k >= 5 else 5 + (k + 1) % 2 for k in kernel)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 4, 3, dilation=2, padding="same", groups=2),
        nn.Conv1d(2, 4, 2, padding="same", padding_mode="reflect"),
        nn.Conv1d(2, 4, 3, padding="valid"),
        nn.ConvTranspose1d(2, 4, 3, stride=2, padding=1, output_padding=1),
    ],
    ids=["dilated", "same reflect", "valid", "transposed"],
)
def test_other_layers_grow_too(layer):
    op, moved = converted(nn.Sequential(layer.double()), torch.randn(2, 2, 12), XDConfig(kernel_size=5))
    assert moved < 1e-12
    assert op.kernel_size[0] >= 5


def test_grown_filters_shrink_back_while_they_are_zero_and_stay_grown_otherwise():
    conv, x = nn.Conv2d(2, 2, 3, padding=1), torch.randn(1, 2, 8, 8)
    model = nn.Sequential(conv)
    convert_(model, x, XDConfig(kernel_size=5, trained=()))
    model[0].weight.data[..., 2, 2] += 1
    expected = model(x)
    assert revert_(model).exact
    assert model[0] is conv
    torch.testing.assert_close(model(x), expected)
    convert_(model, x, XDConfig(kernel_size=5, trained=()))
    model[0].weight.data[..., 0, 0] += 1
    expected = model(x)
    report = revert_(model)
    assert "grown to 5x5" in report.layers[0].note
    assert type(model[0]) is nn.Conv2d
    assert model[0].kernel_size == (5, 5)
    torch.testing.assert_close(model(x), expected)


def test_growth_is_refused_where_the_weight_is_not_the_layers_own():
    x = torch.randn(1, 2, 8)
    model = nn.Sequential(parametrizations.weight_norm(nn.Conv1d(2, 2, 3)))
    with pytest.raises(XDError, match="overrides"):
        convert_(model, x, XDConfig(kernel_size=5))
    tied = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3))
    tied[1].weight = tied[0].weight
    with pytest.raises(XDError, match="shared"):
        convert_(tied, x, XDConfig(kernel_size=5))
    convert_(tied, x)
    assert tied[1].weight is tied[0].weight
    assert isinstance(tied[0], XDOperation)


def test_growth_is_refused_where_the_padding_would_not_fit():
    model = nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect"))
    with pytest.raises(XDError, match="reflect"):
        convert_(model, torch.randn(1, 1, 4), XDConfig(kernel_size=9))


def test_max_pools_start_as_average_pools_when_asked():
    x = torch.randn(2, 3, 8, 8)
    assert "max_pools=False" in why(nn.Sequential(nn.MaxPool2d(2)), x)
    model = nn.Sequential(nn.MaxPool2d(2))
    report = convert_(model, x, XDConfig(max_pools=True))
    torch.testing.assert_close(model(x), F.avg_pool2d(x, 2))
    assert "average pool" in report.converted[0].note
    assert report.converted[0].error > 0.1
    assert revert_(model).exact
    assert torch.equal(model(x), F.max_pool2d(x, 2))


@pytest.mark.parametrize("pool", [nn.MaxPool1d(3, 2, 1), nn.MaxPool3d(2), nn.MaxPool2d((2, 3), dilation=2)])
def test_max_pools_of_every_shape_keep_their_output_shape(pool):
    dims = int(type(pool).__name__[-2])
    x = torch.randn(2, 3, *(9, 8, 7)[:dims])
    model = nn.Sequential(pool)
    shape = model(x).shape
    convert_(model, x, XDConfig(max_pools=True))
    assert model(x).shape == shape


class OptionA(nn.Module):
    """Subsampling and zero channels, as some residual networks change shape."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.padding = (0, 0, 0, 0, before, after)

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], self.padding)


@pytest.mark.parametrize("padding", [(1, 1), (0, 2), (1, 2)])
def test_a_named_shortcut_becomes_a_strided_operation(padding):
    model = nn.Sequential()
    model.add_module("shortcut", OptionA(*padding))
    op, moved = converted(model, torch.randn(2, 2, 8, 7), XDConfig(shortcuts=("short*",), depth=3, kernel_size=5))
    assert moved < 1e-12
    assert (op.in_channels, op.out_channels, op.depth, op.kernel_size) == (2, 2 + sum(padding), (3, 3, 3), (5, 5))


def test_an_example_of_zeros_tells_shortcuts_apart_too():
    model = nn.Sequential(OptionA(0, 2))
    convert_(model, torch.zeros(1, 2, 8, 8), XDConfig(shortcuts=("0",)))
    x = torch.randn(2, 2, 8, 8)
    torch.testing.assert_close(model(x), OptionA(0, 2)(x))


@pytest.mark.parametrize("module", [nn.Sequential(nn.ReLU()), nn.Upsample(scale_factor=2)], ids=["relu", "up"])
def test_a_named_shortcut_that_is_none_is_left_alone(module):
    assert "subsampling" in why(nn.Sequential(module), torch.randn(1, 2, 8, 8), XDConfig(shortcuts=("0",)))


def test_a_named_shortcut_with_parameters_is_looked_into():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(2, 4, 1, stride=2), nn.BatchNorm2d(4)))
    report = convert_(model, torch.randn(1, 2, 8, 8), XDConfig(shortcuts=("0",)))
    assert [row.name for row in report.converted] == ["0.0"]


class Block(nn.Module):
    """The residual block of ResNet-20, with its option A shortcut."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        stride = 1 if c_in == c_out else 2
        self.conv1, self.norm1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out)
        self.conv2, self.norm2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False), nn.BatchNorm2d(c_out)
        self.shortcut = nn.Sequential() if stride == 1 else OptionA(c_in // 2, c_in // 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def test_a_residual_network_becomes_operations_throughout_as_in_the_paper():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Block(4, 4), Block(4, 8), Block(8, 8)).eval()
    x = torch.randn(2, 3, 16, 16)
    expected = model(x)
    config = XDConfig(depth=3, kernel_size=5, b="trained", C="trained", skips=True, shortcuts=("2.shortcut",))
    report = convert_(model, x, config)
    assert len(report.converted) == 7 + 3
    assert not report.left_alone
    assert all(row.depth == (3, 3, 3) for row in report.converted)
    assert report.error < 1e-10
    torch.testing.assert_close(model(x), expected)
    assert all(op.kernel_size == (5, 5) for op in model.modules() if isinstance(op, XDOperation))


def test_pattern_overrides_win_in_order_and_unknown_patterns_are_refused():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3))
    config = XDConfig(depth=1, overrides={"*": {"depth": 2}, "1": {"depth": 3, "C": "trained"}, "2": {"convs": False}})
    report = convert_(model, torch.randn(1, 2, 12), config)
    assert [model[i].depth for i in (0, 1)] == [(2, 2, 2), (3, 3, 3)]
    assert (model[0].C, type(model[1].C)) == (None, nn.Parameter)
    assert [row.name for row in report.left_alone] == ["2"]
    with pytest.raises(XDError, match="layer7"):
        convert_(nn.Sequential(nn.Conv1d(1, 1, 1)), torch.randn(1, 1, 4), XDConfig(overrides={"layer7*": {"depth": 3}}))


@pytest.mark.parametrize(
    "bad",
    [
        {"b": "maybe"}, {"C": "no"}, {"boundary": "zero"}, {"trained": ("Q",)}, {"perturb": -1.0}, {"perturb": float("nan")},
        {"kernel_size": 0}, {"size": "round"}, {"overrides": {"*": {"deep": 3}}}, {"overrides": {"*": {"b": "maybe"}}},
    ],
    ids=str,
)  # fmt: skip
def test_bad_settings_are_refused_at_once(bad):
    with pytest.raises(XDError):
        XDConfig(**bad)


def test_the_filter_chooses_by_name_and_module():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 1))
    report = convert_(model, torch.randn(1, 2, 8), filter_fn=lambda name, m: m.kernel_size[0] > 1 and name == "0")
    assert [row.name for row in report.converted] == ["0"]
    assert "filter_fn" in report.left_alone[0].why


def test_convolutions_of_one_point_can_be_left_alone_but_for_those_that_are_named():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 1, stride=2), nn.Conv1d(2, 2, 1))
    report = convert_(model, torch.randn(1, 2, 8), XDConfig(pointwise=False, overrides={"2": {"pointwise": True}}))
    assert [row.name for row in report.converted] == ["0", "2"]
    assert [(left.name, left.why) for left in report.left_alone] == [("1", "the config says pointwise=False")]


def test_only_the_named_parameters_learn():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.AvgPool1d(2))
    convert_(model, torch.randn(1, 2, 8), XDConfig(trained=("L", "b"), b="trained", C="fixed"))
    names = {n.split(".")[1] for n, p in model.named_parameters() if any(p is a for a in arch_parameters(model))}
    assert names == {"L", "b"}
    assert not model[1].C.requires_grad
    assert all(p.requires_grad for p in weight_parameters(model))


def test_wrapping_is_circular_at_the_inputs_own_size():
    conv, x = nn.Conv2d(2, 3, 3, padding=1), torch.randn(2, 2, 8, 8)
    model = nn.Sequential(conv)
    report = convert_(model, x, XDConfig(boundary="wrap"))
    assert model[0].sizes == (8, 8)
    expected = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), conv.weight, conv.bias)
    torch.testing.assert_close(model(x), expected)
    assert report.error > 1e-3
    assert "wraps around" in str(report)  # says where so large an error comes from


def test_causal_operations_never_see_the_future():
    model = nn.Sequential(nn.Conv1d(2, 2, 3, padding=4, dilation=2), nn.AvgPool1d(2))
    x = torch.randn(1, 2, 16)
    expected = model(x)
    report = convert_(model, x, XDConfig(causal=True))
    assert "causal" in report.left_alone[0].why
    torch.testing.assert_close(model(x), expected)
    for p in arch_parameters(model):
        p.data += 0.1 * torch.randn_like(p)
    later = x.clone()
    later[..., 9:] += 1
    assert torch.allclose(model[0](x)[..., :9], model[0](later)[..., :9], atol=1e-12)
    assert not torch.allclose(model[0](x)[..., 9:], model[0](later)[..., 9:])


class Wider(nn.Conv1d):
    """A subclass that pads by itself."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (2, 0)))


class Spelled(nn.Conv1d):
    """A subclass with its own forward that is a convolution all the same."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(x, self.weight, self.bias, self.stride, self.padding)


class SoftPool(nn.MaxPool1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class SeveralChannels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool1d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.pool(x)[:, :1])


class OutputSize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(2, 2, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x, output_size=[x.shape[-1] * 2 + 2])


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Conv1d(2, 2, 3))
    model[0].register_forward_hook(lambda m, a, out: out * 2)
    return model


@pytest.mark.parametrize(
    ("model", "x", "reason"),
    [
        (nn.Sequential(Wider(2, 2, 3)), torch.randn(1, 2, 8), "not compute what layers of its kind do"),
        (SeveralChannels(), torch.randn(1, 2, 8), "1 and 2 channels"),
        (OutputSize(), torch.randn(1, 2, 8), "more than one tensor"),
        (nn.Sequential(nn.MaxPool1d(2, return_indices=True)), torch.randn(1, 2, 8), "more than one tensor"),
        (nn.Sequential(nn.Conv1d(2, 2, 3)), torch.randn(2, 8), "batch"),
        (nn.Sequential(nn.Identity()), torch.randn(2, 8), "dimensions"),
        (nn.Sequential(nn.AvgPool2d(2, divisor_override=3)), torch.randn(1, 2, 8, 8), "divisor"),
        (nn.Sequential(SoftPool(2)), torch.randn(1, 2, 8), "forward of its own"),
        (hooked(), torch.randn(1, 2, 8), "hooks"),
    ],
    ids=["own forward", "channels", "output_size", "indices", "unbatched", "flat", "divisor", "pool", "hooks"],
)
def test_what_cannot_be_an_operation_is_left_alone_with_the_reason(model, x, reason):
    assert reason in why(model.double(), x.double(), XDConfig(max_pools=True, skips=True))


def test_a_subclass_that_is_a_convolution_all_the_same_is_converted():
    _, moved = converted(nn.Sequential(Spelled(2, 2, 3)), torch.randn(1, 2, 8), XDConfig(boundary="wrap", depth=3))
    assert moved < 1e-12


def test_a_pool_that_counts_differently_at_two_sizes_is_left_alone():
    class TwoSizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.AvgPool1d(3, 1, 1, count_include_pad=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.pool(self.pool(x)[..., :-1])

    assert "not compute what layers of its kind do" in why(TwoSizes(), torch.randn(1, 2, 8))


def test_a_model_that_is_a_convolution_itself_is_refused_with_advice():
    with pytest.raises(XDError, match=r"nn.Sequential\(model\)"):
        convert_(nn.Conv1d(1, 1, 3), torch.randn(1, 1, 8))


def test_an_example_that_does_not_run_is_refused_and_nothing_changes():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2)).train()
    before = list(model.modules())
    for example in (torch.randn(1, 3, 8), (torch.randn(1, 2, 8), 1), {"y": 1}, [torch.randn(1, 2, 8)]):
        with pytest.raises(XDError):
            convert_(model, example)
    assert list(model.modules()) == before
    assert all(m.training and not m._forward_hooks and not m._forward_pre_hooks for m in before)


def test_an_error_in_one_layer_names_it_and_leaves_the_others():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3, dilation=2))
    with pytest.raises(XDError, match="1: depth"):
        convert_(model, torch.randn(1, 2, 12), XDConfig(depth=1))
    assert all(type(m) is nn.Conv1d for m in model)


def test_buffers_that_a_forward_changes_are_restored():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("last", torch.zeros(1, 2, 6))
            self.conv = nn.Conv1d(2, 2, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = self.conv(x) + torch.rand(())
            return self.last

    model = Counter()
    buffers = dict(model.named_buffers())
    convert_(model, torch.randn(1, 2, 8))
    assert all(model.get_buffer(n) is b and not b.any() for n, b in buffers.items())


def test_frozen_weights_stay_frozen():
    model = nn.Sequential(nn.Conv1d(2, 2, 3).requires_grad_(False), nn.Conv1d(2, 2, 3).requires_grad_(False))
    convert_(model, torch.randn(1, 2, 12), XDConfig(overrides={"1": {"kernel_size": 5}}))
    assert not any(p.requires_grad for p in weight_parameters(model))
    assert all(p.requires_grad for p in arch_parameters(model))


def test_converting_twice_adds_what_was_left_alone_before():
    model, x = nn.Sequential(nn.Conv1d(2, 2, 3), nn.AvgPool1d(2)), torch.randn(1, 2, 8)
    convert_(model, x, XDConfig(pools=False))
    op = model[0]
    report = convert_(model, x)
    assert [row.name for row in report.converted] == ["1"]
    assert model[0] is op


def test_operations_of_the_users_own_have_no_start_and_are_not_reverted():
    op = XDOperation.from_conv(nn.Conv1d(2, 2, 3), 8)
    model = nn.Sequential(op)
    assert novelty(model) == {}
    assert revert_(model).layers == ()
    assert model[0] is op
    assert len(arch_parameters(model)) == 3


def test_merged_operations_compute_the_same_and_can_train_again():
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.AvgPool1d(2)), torch.randn(2, 2, 8)
    convert_(model, x, XDConfig(perturb=0.1))
    expected = model(x)
    merge_(model)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    unmerge_(model)
    model(x).square().sum().backward()
    assert all(p.grad is not None for p in arch_parameters(model))


def test_a_reverted_copy_does_not_touch_the_model_it_was_copied_from():
    model, x = nn.Sequential(nn.Conv1d(2, 2, 3)), torch.randn(1, 2, 8)
    convert_(model, x)
    twin = copy.deepcopy(model)
    revert_(twin)
    twin[0].weight.data.zero_()
    assert isinstance(model[0], XDOperation)
    assert model[0].weight.any()
