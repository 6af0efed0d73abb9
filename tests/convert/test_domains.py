"""Whole networks in half a domain: every toy network computes the same, learns, merges, is saved, and comes back as it was."""

import copy

import pytest
import torch
from toy_networks import CASES, network, run, train_step

import xdops
from xdops import XDConfig, XDError, XDOperation, convert_, merge_, novelty, revert_, unmerge_

HALF = XDConfig(skips=True, b="trained", C="trained", domain="half")


@pytest.mark.parametrize("name", CASES)
def test_a_network_in_half_a_domain_computes_learns_merges_and_comes_back(name):
    model, example = network(name)
    expected = run(model.eval(), example)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    report = convert_(model, example, HALF)
    operations = [m for m in model.modules() if isinstance(m, XDOperation)]
    assert all(op.domain == (*op.sizes[:-1], op.sizes[-1] // 2) for op in operations)
    torch.testing.assert_close(run(model, example), expected, rtol=1e-10, atol=1e-10)
    assert report.converted
    assert set(novelty(model).values()) == {0.0}
    trained = copy.deepcopy(model)
    revert_(model)
    torch.testing.assert_close(run(model, example), expected, rtol=0, atol=0)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    train_step(trained, example)
    assert min(novelty(trained).values()) > 0
    with torch.no_grad():  # the plan, and with it the rounding, knows whether gradients are recorded
        learned = run(trained.eval(), example)
        merge_(trained)
        torch.testing.assert_close(run(trained, example), learned, rtol=1e-9, atol=1e-9)
        unmerge_(trained)
        torch.testing.assert_close(run(trained, example), learned, rtol=0, atol=0)


def test_a_network_in_half_a_domain_survives_a_file(tmp_path):
    model, example = network(next(iter(CASES)))
    fresh = copy.deepcopy(model)
    convert_(model, example, HALF)
    train_step(model, example)
    xdops.save(model, tmp_path / "model.safetensors")
    loaded = xdops.load(tmp_path / "model.safetensors", lambda: fresh)
    torch.testing.assert_close(run(loaded.eval(), example), run(model.eval(), example), rtol=0, atol=0)
    assert novelty(loaded) == novelty(model)


def test_a_layer_can_have_a_domain_of_its_own_and_wrong_names_are_refused():
    model, example = network(next(iter(CASES)))
    convert_(model, example, XDConfig(domain="full", overrides={"*": {"domain": "half"}}))
    assert all(m.domain != m.sizes for m in model.modules() if isinstance(m, XDOperation))
    with pytest.raises(XDError, match="'half' or 'full'"):
        XDConfig(domain="quarter")
