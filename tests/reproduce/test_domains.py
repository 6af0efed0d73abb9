"""The comparison of domains: rows differ in the domain alone, and start as the same network."""

import json

import torch
from matrix_laws import agree

from xdops import XDOperation
from xdops.experiments.network import NetworkSettings
from xdops.reproduce.cifar.presets import PRESETS
from xdops.reproduce.pde import BURGERS, DARCY, NAVIER_STOKES
from xdops.reproduce.table import Context
from xdops.reproduce.tables import find_table
from xdops.reproduce.tables.domains import digits


def test_rows_come_in_pairs_that_differ_in_their_domain_alone():
    rows = find_table("domains").rows(Context("laptop"))
    assert len(rows) == 8
    for full, half in zip(rows[::2], rows[1::2], strict=True):
        assert full.setting == half.setting
        assert len(full.seeds) >= 3
        assert full.seeds == half.seeds
        assert json.dumps(full.settings).replace('"domain": "full"', '"domain": "half"') == json.dumps(half.settings)
        assert full.settings != half.settings


def test_both_start_as_the_same_network_and_are_judged_on_samples_that_are_not_the_tests():
    full, half = (row.prepare(0) for row in find_table("domains").rows(Context("laptop"))[:2])
    x = torch.randn(2, *digits()[1].input_shape)
    agree(half.network(x), full.network(x), 1e-4)
    of_half, of_full = ([m for m in p.network.modules() if isinstance(m, XDOperation)] for p in (half, full))
    assert all(2 * op.domain[-1] == op.sizes[-1] for op in of_half)
    assert all(op.domain == op.sizes for op in of_full)
    assert half.problem.test is half.problem.validation
    assert half.settings == full.settings


def test_a_search_that_knows_no_domain_was_a_full_one():
    assert NetworkSettings.from_dict({"backbone": "small", "depth": [3, 3, 3]}).domain == "full"
    half = NetworkSettings("small", (3, 3, 3), "half")
    assert NetworkSettings.from_dict(half.to_dict()) == half


def test_the_papers_own_settings_use_the_full_domain():
    equations = [presets["paper"] for presets in (BURGERS, DARCY)]
    for preset in (*equations, *NAVIER_STOKES["paper"], *PRESETS["paper"]):
        assert preset.domain == "full"
