"""The model as a whole before and after its conversion; layers are called, read and given back as they were."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from xdops import XDConfig, XDError, XDOperation, convert_, revert_
from xdops.spaces import DartsEdge, darts_

SPACES = pytest.mark.parametrize("convert", [convert_, lambda *given: darts_(*given, perturb=0.0)], ids=["xd", "darts"])


class Calls(nn.Module):
    """A network that does something with its convolution besides calling it."""

    def __init__(self, call) -> None:
        super().__init__()
        self.conv, self.call, self.seen = nn.Conv1d(2, 2, 3, padding=1), call, 0

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def test_the_report_compares_the_whole_model():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 3), nn.BatchNorm1d(2)), torch.randn(3, 2, 12)
    expected = model.eval()(x)
    report = convert_(model.train(), x)
    with torch.no_grad():
        away = (model.eval()(x) - expected).abs().max() / expected.abs().max()
    assert 0 < report.model_error < 1e-6
    assert report.error == report.model_error
    assert report.layer_error == max(row.error for row in report.converted)
    assert f"whole model {report.error:.1e}" in str(report)
    assert away < 1e-6


@SPACES
@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda self, x: self.conv(x) if isinstance(self.conv, nn.Conv1d) else x, "another output"),
        (lambda self, x: self.conv(x) * (1 if type(self.conv) is nn.Conv1d else 1.1), "another output"),
        (
            lambda self, x: self.conv(x) + self.conv.no_such_thing() if not isinstance(self.conv, nn.Conv1d) else self.conv(x),
            "fails",
        ),
    ],
    ids=["type", "scale", "attribute"],
)
def test_a_model_that_disagrees_although_its_layers_agree_is_put_back(convert, call, why):
    torch.manual_seed(0)
    model, x = Calls(call), torch.randn(2, 2, 8)
    conv, expected = model.conv, model(x)
    with pytest.raises(XDError, match=why):
        convert(model, x)
    assert model.conv is conv
    assert torch.equal(model(x), expected)


@SPACES
@pytest.mark.parametrize(
    "call",
    [
        lambda self, x: self.conv(input=x),
        lambda self, x: self.conv(x)[..., :: self.conv.stride[0]] * self.conv.in_channels * self.conv.kernel_size[0],
        lambda self, x: self.conv(nn.functional.pad(x, (self.conv.padding[0] + self.conv.dilation[0], 0))) / self.conv.groups,
        lambda self, x: {"a": [self.conv(x), None], "b": (torch.arange(3), "text")}["a"][0],
        lambda self, x: self.conv(x) + torch.rand(()),
    ],
    ids=["keyword", "stride", "padding", "nested", "random"],
)
def test_layers_may_be_called_by_keyword_and_read_as_before(convert, call):
    torch.manual_seed(0)
    model, x = Calls(call), torch.randn(2, 2, 8)
    torch.manual_seed(1)
    expected = model(x)
    report = convert(model, x)
    assert report.error < 1e-5
    torch.manual_seed(1)
    torch.testing.assert_close(model(x), expected)


def test_a_model_with_a_memory_of_its_own_is_converted():
    def count(self, x):
        self.seen += 1
        return self.conv(x) * self.seen

    model = Calls(count)
    report = convert_(model, torch.randn(2, 2, 8))
    assert report.converted
    assert report.error > 0.1


def test_outputs_without_numbers_are_no_obstacle():
    model = Calls(lambda self, x: self.conv(x).argmax())
    report = convert_(model, torch.randn(2, 2, 8))
    assert report.model_error is None
    assert report.error == report.layer_error > 0


def test_outputs_that_are_no_number_before_and_after_agree():
    model = Calls(lambda self, x: torch.cat((self.conv(x), torch.full_like(x, torch.nan), torch.full_like(x, torch.inf))))
    assert convert_(model, torch.randn(2, 2, 8)).error < 1e-5


def test_nothing_converted_is_a_warning():
    with pytest.warns(UserWarning, match=r"0 was left alone.*never"):
        convert_(Unused(), torch.randn(2, 2))
    with pytest.warns(UserWarning, match="no layer of a kind"):
        convert_(nn.Sequential(nn.Linear(2, 2)), torch.randn(2, 2))


class Unused(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv1d(2, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x


def two_layers() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), parametrizations.weight_norm(nn.Conv1d(3, 2, 3)), nn.Conv1d(2, 2, 3))
    return model.double(), torch.randn(2, 2, 12).double()


def test_a_reversal_that_fails_changes_nothing():
    model, x = two_layers()
    convert_(model, x)
    operations, state = list(model), copy.deepcopy(model.state_dict())
    model[2].L = nn.ModuleList()  # nonsense: its distance from the start cannot be told
    with pytest.raises(ValueError, match="zip"):
        revert_(model)
    assert [*model] == operations
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    parameters = {id(p) for operation in operations for p in operation.parameters()}
    assert {id(p) for p in model.parameters()} == parameters


@SPACES
def test_a_pruned_operation_gives_its_pruned_weight_back(convert):
    model, x = two_layers()
    convert(model, x, XDConfig(trained=()))
    conv = model[0]
    prune.l1_unstructured(conv, "weight", amount=0.5)
    prune.l1_unstructured(conv, "bias", amount=1)
    expected = model(x)
    revert_(model)
    assert type(model[0]) is nn.Conv1d
    assert {"weight", "bias"} == {*dict(model[0].named_parameters())}
    assert (model[0].weight == 0).any()
    assert model[0].weight.requires_grad
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("by_hook", [False, True])
def test_a_parametrization_removed_from_the_operation_is_gone_from_the_layer(by_hook):
    model, x = two_layers()
    if by_hook:
        parametrize.remove_parametrizations(model[1], "weight")
        with pytest.warns(FutureWarning):
            torch.nn.utils.weight_norm(model[1])
    expected = model(x)
    convert_(model, x, XDConfig(trained=()))
    parametrize.remove_parametrizations(model[1], "weight")
    weight = model[1].weight
    assert revert_(model).exact
    assert type(model[1]) is nn.Conv1d
    assert model[1].weight is weight
    assert not model[1]._forward_pre_hooks
    torch.testing.assert_close(model(x), expected)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_a_parametrization_removed_from_the_operation_is_not_applied_again():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3)), torch.randn(2, 2, 8)
    parametrize.register_parametrization(model[0], "weight", Doubled())
    expected = model(x)
    convert_(model, x)
    parametrize.remove_parametrizations(model[0], "weight")
    revert_(model)
    torch.testing.assert_close(model(x), expected)


def test_a_parametrization_put_on_the_operation_comes_back_with_the_layer():
    model, x = two_layers()
    convert_(model, x, XDConfig(trained=()))
    parametrizations.weight_norm(model[0])
    expected = model(x)
    revert_(model)
    assert parametrize.is_parametrized(model[0], "weight")
    torch.testing.assert_close(model(x), expected)


@SPACES
def test_copies_are_reverted_by_themselves(convert):
    model, x = two_layers()
    convert(model, x)
    twin = copy.deepcopy(model)
    revert_(twin)
    assert isinstance(model[0], (XDOperation, DartsEdge))
    torch.testing.assert_close(twin(x), model(x))
