"""Converted networks in other precisions, on other devices, copied and kept; lines of docs/compatibility.md."""

import copy
import io
import pickle

import pytest
import torch
from converted import CASES, SPACES, X, close, filters_, gradients, network
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from toy_networks import train_step

from xdops import (
    XDConfig,
    arch_parameters,
    convert_,
    merge_,
    novelty,
    revert_,
    weight_parameters,
)


@CASES
def test_amp(convert, merged):
    model = network(convert)
    expected, wanted = model(X), gradients(model)
    if merged:
        merge_(model)
    with torch.autocast("cpu", torch.bfloat16):
        given = model(X)
        torch.testing.assert_close(given.float(), expected, rtol=0.1, atol=0.05 * float(expected.detach().abs().max()))
        if not merged:
            for given, exact in zip(gradients(model), wanted, strict=True):
                assert (given - exact).norm() < 0.2 * exact.norm() + 1e-6


@CASES
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(convert, merged, dtype):
    model, x = network(convert).to(dtype), X.to(dtype)
    twin = copy.deepcopy(model).float()  # the same numbers, in arithmetic that does not round them
    expected, wanted = twin(x.float()), gradients(twin, x.float())
    if merged:
        merge_(model)
    given = model(x)
    assert given.dtype == dtype
    assert (given - expected).norm() < 0.05 * expected.norm()
    if not merged:
        for slope, exact in zip(gradients(model, x), wanted, strict=True):
            assert (slope - exact).norm() < 0.2 * exact.norm() + 1e-6


@pytest.mark.parametrize("convert", [convert_, filters_], ids=["xd", "filters"])
def test_another_default_device(convert):
    expected = network(convert)(X)
    torch.set_default_device("meta")
    try:
        model = nn.Sequential(nn.Conv1d(2, 3, 3, device="cpu"), nn.Conv1d(3, 2, 3, device="cpu"))
        y = model(X)
        convert(model, X, XDConfig(perturb=1e-7))
        torch.testing.assert_close(model(X), y, rtol=1e-4, atol=1e-4)
        gradients(model)
        merge_(model)
        torch.testing.assert_close(model(X), y, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_default_device(None)
    assert torch.equal(network(convert)(X), expected)  # nothing was kept of that device


@SPACES
def test_load_state_dict_with_assign(convert):
    model, twin = network(convert), network(convert)
    train_step(twin, X)
    model.load_state_dict({k: v.clone() for k, v in twin.state_dict().items()}, assign=True)
    ids = {id(p) for p in model.parameters()}
    assert {id(p) for p in (*arch_parameters(model), *weight_parameters(model))} == {
        id(p) for p in model.parameters() if p.requires_grad
    }
    assert novelty(model) == novelty(twin)
    assert torch.equal(model.eval()(X), twin.eval()(X))
    close(gradients(model), gradients(twin))
    train_step(model, X)
    assert novelty(model) != novelty(twin)
    revert_(model)
    assert id(model[1].weight) in ids


@SPACES
def test_moving_averages(convert):
    model = network(convert)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for _ in range(2):
        train_step(model, X)
        average.update_parameters(model)
    assert set(novelty(average)) == {f"module.{name}" for name in novelty(model)}
    assert all(0 < a != b for a, b in zip(novelty(average).values(), novelty(model).values(), strict=True))
    last, first = model[0].weight, average.module[0].weight
    assert not torch.equal(last, first)
    average.eval()(X)
    merge_(average)
    average(X)


@SPACES
def test_deepcopy(convert):
    model = network(convert)
    twin = copy.deepcopy(model)
    train_step(twin, X)
    assert novelty(model) != novelty(twin)
    assert {id(p) for p in model.parameters()}.isdisjoint(id(p) for p in twin.parameters())


@CASES
def test_pickle(convert, merged):
    model = network(convert)
    away = novelty(model)
    if merged:
        merge_(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(X), model(X))
        if not merged:
            assert novelty(twin) == away
            close(gradients(twin), gradients(model))
        revert_(twin)
        assert type(twin[0]) is nn.Conv1d
