"""Merging puts plain modules in the operations' places at once, and unmerging puts the same operations back."""

import copy

import pytest
import torch
from torch import Tensor, nn
from toy_networks import CASES, network, run, train_step

from xdops import XDConfig, XDError, XDOperation, arch_parameters, convert_, merge_, novelty, revert_, unmerge_, weight_parameters


def trained(name: str = "containers") -> tuple[nn.Module, object, dict[str, XDOperation]]:
    model, example = network(name)
    convert_(model, example, XDConfig(skips=True))
    train_step(model, example)
    return model.eval(), example, {n: m for n, m in model.named_modules() if isinstance(m, XDOperation)}


@pytest.mark.parametrize("name", CASES)
def test_a_merged_network_computes_the_same_and_the_same_operations_come_back(name):
    model, example, operations = trained(name)
    expected = run(model, example).detach()
    keys = list(model.state_dict())
    merge_(model)
    assert not any(isinstance(m, XDOperation) for m in model.modules())
    assert not arch_parameters(model)
    torch.testing.assert_close(run(model, example), expected, rtol=1e-10, atol=1e-10)
    plain = list(model.modules())
    merge_(model)
    assert all(a is b for a, b in zip(plain, model.modules(), strict=True))
    unmerge_(model)
    assert all(model.get_submodule(n) is op for n, op in operations.items())
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(run(model, example), expected, rtol=1e-12, atol=1e-12)


def test_untouched_operations_become_their_convolutions():
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU()), torch.randn(2, 2, 8)
    expected = model(x).detach()
    convert_(model, x)
    merge_(model)
    assert type(model[0]) is nn.Conv1d
    assert not model[0].weight.requires_grad
    assert torch.equal(model(x), expected)


def test_what_is_loaded_into_a_merged_network_is_what_it_computes_at_every_batch_size():
    model, x, _ = trained()
    other = copy.deepcopy(model)
    train_step(other.train(), x)
    operations = other.eval().state_dict()
    merge_(model)
    model(x)  # nothing is remembered from it
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict(operations)
    merge_(other)
    model.load_state_dict(other.state_dict())
    for batch in (2, 1):
        assert torch.equal(model(x[:batch]), other(x[:batch]))


def test_a_merged_network_in_training_mode_is_fixed_but_for_the_layers_between():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3), nn.Conv1d(3, 2, 1)), torch.randn(4, 2, 8)
    convert_(model, x, XDConfig(perturb=0.1))
    model.train()
    merge_(model)
    assert {p for p in weight_parameters(model) if p.requires_grad} == {*model[1].parameters()}
    model(x).square().sum().backward()
    assert model[1].weight.grad is not None
    assert model[1].num_batches_tracked == 1
    unmerge_(model)
    assert all(m.training for m in model.modules())


def test_operations_come_back_in_the_dtype_that_the_network_has_now():
    model, x, _ = trained()
    merge_(model)
    model.float()
    unmerge_(model)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    model(x.float())


def test_a_merged_network_can_be_reverted_and_not_converted():
    model, x, operations = trained()
    away = novelty(model)
    merge_(model)
    with pytest.raises(XDError, match="unmerge_"):
        convert_(model, x)
    report = revert_(model)
    assert {row.name: row.change for row in report.layers} == pytest.approx(away)
    assert {row.name for row in report.layers} == set(operations)
    backbone, _ = network("containers")
    assert list(backbone.state_dict()) == list(model.state_dict())


def test_a_single_operation_is_refused_with_advice():
    op = XDOperation.from_conv(nn.Conv1d(1, 1, 3), 8)
    with pytest.raises(XDError, match=r"op\.merged"):
        merge_(op)


def test_a_merge_that_fails_changes_nothing(monkeypatch):
    model, _, operations = trained()
    last = list(operations.values())[-1]

    def fail() -> Tensor:
        raise MemoryError

    monkeypatch.setattr(last, "merged", fail)
    with pytest.raises(MemoryError):
        merge_(model)
    assert all(model.get_submodule(n) is op for n, op in operations.items())


def test_a_merged_operation_says_what_the_convolution_said():
    model = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1, stride=2))
    convert_(model, torch.randn(1, 2, 8))
    with torch.no_grad():
        for parameter in arch_parameters(model):
            parameter.add_(0.05 * torch.randn_like(parameter))
    merge_(model.eval())
    assert not isinstance(model[0], nn.Conv1d)
    assert (model[0].stride, model[0].padding, model[0].kernel_size, model[0].out_channels) == ((2,), (1,), (3,), 4)


@pytest.mark.parametrize("back", [unmerge_, revert_])
def test_a_merged_network_that_was_given_other_values_has_no_way_back(back):
    model, x, operations = trained()
    merge_(model)
    merged = copy.deepcopy(model.state_dict())
    name = next(n for n, v in merged.items() if v.is_floating_point() and n.startswith(next(iter(operations))))
    model.load_state_dict(merged | {name: merged[name] + 1e-3})
    expected = run(model, x)
    with pytest.raises(XDError, match=f"{next(iter(operations))} was changed after it was merged"):
        back(model)
    assert torch.equal(run(model, x), expected)
    model.load_state_dict(merged)
    back(model)
