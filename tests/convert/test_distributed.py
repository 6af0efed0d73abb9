"""Converted networks inside DistributedDataParallel."""

import copy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from xdops import XDConfig, arch_parameters, novelty, weight_parameters
from xdops.spaces import SpaceSettings, apply


@pytest.fixture
def process_group(tmp_path: Path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.trains
@pytest.mark.parametrize("space", ["xd", "darts"])
@pytest.mark.usefixtures("process_group")
def test_a_wrapped_network_trains_as_the_bare_one(space):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(2, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.AvgPool1d(2), nn.Conv1d(4, 2, 3, dilation=2)
    )
    x = torch.randn(3, 2, 16)
    apply(space, model, x, SpaceSettings(XDConfig(b="trained", C="trained")))
    twin = copy.deepcopy(model)
    wrapped = DistributedDataParallel(twin)
    for net in (model, wrapped):
        optimizer = torch.optim.Adam([{"params": weight_parameters(net)}, {"params": arch_parameters(net), "lr": 1e-3}])
        for _ in range(2):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True))
    assert list(novelty(wrapped).values()) == list(novelty(model).values())
    assert all(value > 0 for value in novelty(wrapped).values())
