"""Weights that torch computes, prunes, folds or adapts, and hooks, in converted networks; lines of docs/compatibility.md."""

import copy

import pytest
import torch
import torch.nn.functional as F
from converted import CONFIGS, KINDS, SPACES, X, backbone, configured, gradients, network
from torch import Tensor, nn
from torch.nn.utils import (
    fuse_conv_bn_eval,
    parametrizations,
    parametrize,
    prune,
)
from toy_networks import train_step

from xdops import (
    XDConfig,
    XDError,
    convert_,
    merge_,
    resize_,
    revert_,
    unmerge_,
)


@KINDS
def test_hooks_stay_with_their_place(kind):
    model, seen = configured(kind), []
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
    model, seen = configured(moved=False), []
    model[0].register_forward_hook(lambda module, given, output: seen.append(output.shape[2]))
    resize_(model, torch.randn(1, 2, 16))
    seen.clear()
    model(torch.randn(1, 2, 16))
    assert seen == [16]


def test_a_layer_whose_files_have_hooks_is_left_alone():
    model = backbone()
    model[0].register_state_dict_post_hook(lambda *_: None)
    assert "hooks" in {row.name: row.why for row in convert_(model, X).left_alone}["0"]


@SPACES
def test_prune(convert):
    model = network(convert)
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    assert (model[0].weight == 0).sum() == model[0].weight.numel() // 2
    gradients(model)
    assert (model[0].weight_orig.grad == 0).sum() >= model[0].weight.numel() // 2
    expected = model(X).detach()
    prune.remove(model[0], "weight")
    assert torch.equal(model(X), expected)


@KINDS
def test_a_pruned_weight_is_merged_and_given_back_as_it_is_now(kind):
    model = configured(kind)
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
    model = configured(moved=False)
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

    model, plain = configured(kind, moved=False), backbone().eval()
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


@pytest.mark.parametrize("kind", ["xd", "filters", "causal"])
def test_batch_norm_is_folded_into_the_weight(kind):
    model = configured(kind)
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
