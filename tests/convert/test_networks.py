"""Conversion of toy networks in every style: one table drives every behaviour that must hold for all of them."""

import copy
import io

import pytest
import torch
from torch.nn.utils import parametrize
from toy_networks import CASES, network, run, train_step

import xdops
from xdops import XDConfig, XDOperation, arch_parameters, convert_, novelty, revert_, weight_parameters
from xdops.convert.kinds import kind_of

SEARCH_ALL = XDConfig(skips=True, b="trained", C="trained")
every_case = pytest.mark.parametrize("name", CASES)


@every_case
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["float64", "float32"])
def test_a_converted_network_computes_the_same(name, dtype, tolerance):
    model, example = network(name, dtype)
    expected = run(model.eval(), example)
    report = convert_(model, example, XDConfig(skips=True))
    torch.testing.assert_close(run(model, example), expected, rtol=tolerance, atol=tolerance)
    assert report.error < tolerance
    assert report.converted


@every_case
def test_every_reached_layer_is_an_operation_and_the_report_names_each_layer_once(name):
    model, example = network(name)
    layers = {n: m for n, m in model.named_modules() if kind_of(m) and ".parametrizations" not in f".{n}"}
    report = convert_(model, example, XDConfig(skips=True))
    converted = {row.name for row in report.converted}
    assert converted | {row.name for row in report.left_alone} == set(layers)
    assert converted == set(layers) - ({"unused"} if name == "unreached layer" else set())
    for row in report.converted:
        op = model.get_submodule(row.name)
        assert isinstance(op, XDOperation)
        assert (row.size, row.depth) == (op.sizes, op.depth)
        assert row.architecture == sum(p.numel() for _, p in op.architecture()) > 0
        assert f"\n{row.name} " in str(report)


@every_case
def test_parameters_are_either_weights_or_architecture(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    weights, architecture = weight_parameters(model), arch_parameters(model)
    ids = [id(p) for p in (*weights, *architecture)]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {id(p) for p in model.parameters()}


@every_case
def test_a_training_step_moves_weights_and_architecture_and_novelty_sees_it(name):
    model, example = network(name)
    report = convert_(model, example, SEARCH_ALL)
    assert set(novelty(model).values()) == {0.0}
    before = copy.deepcopy(model)
    train_step(model, example)
    for row in report.converted:
        op, old = model.get_submodule(row.name), before.get_submodule(row.name)
        assert 0 < novelty(model)[row.name] < 1
        assert any(not torch.equal(p, q) for (_, p), (_, q) in zip(op.architecture(), old.architecture(), strict=True))
        # The filters of pools and skips have no gradient while L = 0.
        moved = any(not torch.equal(p, q) for p, q in zip(op.weight_parameters(), old.weight_parameters(), strict=True))
        assert moved != row.was.startswith(("AvgPool", "Identity"))


@every_case
def test_the_same_objects_come_back_while_the_architecture_is_untouched(name):
    model, example = network(name)
    modules, keys = dict(model.named_modules()), list(model.state_dict())
    expected = run(model.eval(), example)
    convert_(model, example, XDConfig(skips=True))
    report = revert_(model)
    assert report.exact
    assert all(m is modules[n] for n, m in model.named_modules())
    assert list(model.state_dict()) == keys
    assert torch.equal(run(model, example), expected)


@every_case
def test_weights_trained_under_a_fixed_architecture_come_back_exactly(name):
    model, example = network(name)
    convert_(model, example, XDConfig(trained=()))
    optimizer = torch.optim.SGD(weight_parameters(model), lr=0.1) if weight_parameters(model) else None
    if optimizer is None:
        pytest.skip("no weights at all")
    run(model.train(), example).square().mean().backward()
    optimizer.step()
    trained = run(model.eval(), example)
    assert revert_(model).exact
    torch.testing.assert_close(run(model, example), trained, rtol=1e-10, atol=1e-10)
    assert not any(isinstance(m, XDOperation) for m in model.modules())


@every_case
def test_a_trained_architecture_is_reported_lost(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    away = novelty(model)
    report = revert_(model)
    assert not report.exact
    for row in report.layers:
        assert row.change == pytest.approx(away[row.name])
        assert "lost" in row.note


@every_case
def test_a_state_dict_loads_into_a_freshly_converted_network(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh, _ = network(name)
    convert_(fresh, example, SEARCH_ALL)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(run(fresh.eval(), example), run(model.eval(), example))
    assert novelty(fresh) == novelty(model)


@every_case
def test_a_deep_copy_is_independent_and_remembers_its_start(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    expected, away = run(model.eval(), example), novelty(model)
    twin = copy.deepcopy(model)
    train_step(twin, example)
    assert torch.equal(run(model, example), expected)
    assert novelty(model) == away != novelty(twin)
    assert not ({id(p) for p in model.parameters()} & {id(p) for p in twin.parameters()})
    revert_(twin)
    assert not any(isinstance(m, XDOperation) for m in twin.modules())
    assert {id(p) for p in twin.parameters()}.isdisjoint(id(p) for p in model.parameters())


@every_case
def test_a_change_of_dtype_is_no_change_of_architecture(name):
    model, example = network(name, torch.float32)
    expected = run(model.eval(), example).double()
    convert_(model, example, SEARCH_ALL)
    model.double()
    assert set(novelty(model).values()) == {0.0}
    _, wide = network(name, torch.float64)
    torch.testing.assert_close(run(model, wide), expected, rtol=1e-4, atol=1e-5)
    assert all(p.dtype == torch.float64 for p in model.parameters())
    assert revert_(model).exact


@every_case
def test_conversion_leaves_modes_buffers_and_random_state_as_they_were(name):
    model, example = network(name)
    model.train()
    first = next(model.children())
    first.eval()
    modes = {n: m.training for n, m in model.named_modules()}
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    state = torch.get_rng_state()
    convert_(model, example, SEARCH_ALL)
    novelty(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(b, buffers[n]) for n, b in model.named_buffers() if n in buffers)
    assert all(model.get_submodule(n).training == mode for n, mode in modes.items() if n in dict(model.named_modules()))


@every_case
def test_perturbation_is_relative_seeded_and_part_of_the_start(name):
    (model, example), (twin, _) = network(name), network(name)
    config = XDConfig(perturb=0.05, seed=3)
    convert_(model, example, config)
    convert_(twin, example, config)
    for (key, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert torch.equal(a, b), key
    assert set(novelty(model).values()) == {0.0}
    report = revert_(model)
    assert all(0.01 < row.change < 0.1 for row in report.layers)


def test_parametrized_weights_keep_their_parametrization():
    for name in ("weight norm", "weight norm by a hook", "spectral norm"):
        model, example = network(name)
        convert_(model, example)
        assert parametrize.is_parametrized(model[0], "weight")
    model, example = network("weight norm")
    convert_(model, example)
    train_step(model, example)
    norms = model[0].weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, model[0].parametrizations.weight.original0.flatten().abs())


@pytest.mark.parametrize("name", ["weight norm", "weight norm by a hook", "spectral norm"])
def test_a_parametrized_layer_trains_as_the_original_does_while_the_architecture_is_fixed(name):
    (model, example), (twin, _) = network(name), network(name)
    convert_(twin, example, XDConfig(trained=()))
    outputs = []
    for net in (model.train(), twin.train()):
        optimizer = torch.optim.SGD(weight_parameters(net), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = run(net, example)
            out.square().mean().backward()
            optimizer.step()
        outputs.append(out.detach())
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)


def test_public_names_are_at_the_top():
    assert {"convert_", "revert_", "merge_", "arch_parameters", "weight_parameters", "novelty", "XDConfig"} <= set(xdops.__all__)
