"""Backbones fit what they are asked for, and users' own ones are checked before anything is trained."""

import sys

import pytest
import torch

from xdops.backbones import Request, build_backbone, operator_cnn
from xdops.backbones.build import NAMED
from xdops.backbones.request import TaskKind
from xdops.errors import XDError

REQUESTS = [
    Request("classification", 1, 5, (64,)),
    Request("classification", 3, 10, (9, 12)),
    Request("regression", 2, 3, (40, 33)),
    Request("classification", 1, 2, (8, 8, 8)),
    Request("dense", 1, 1, (33,)),
    Request("dense", 3, 2, (12, 17)),
    Request("dense", 1, 1, (5, 6, 7)),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: f"{r.kind}-{len(r.spatial)}d")
def test_the_default_backbone_gives_the_shape_that_the_task_asks_for(request_: Request) -> None:
    network = build_backbone("auto", request_, seed=0)
    assert network(torch.randn(3, *request_.input_shape)).shape == (3, *request_.output_shape)


@pytest.mark.parametrize("name", NAMED)
def test_a_seed_makes_the_same_network_and_leaves_the_global_random_state_alone(name: str) -> None:
    request = Request("dense" if name in ("operator", "periodic", "unet", "cnn", "fno") else "classification", 1, 2, (16,))
    before = torch.get_rng_state()
    first, second, other = (build_backbone(name, request, seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_the_operator_cnn_commutes_with_shifts_since_its_convolutions_are_circular() -> None:
    network = operator_cnn(Request("dense", 1, 1, (10, 14))).eval()
    x = torch.randn(2, 1, 10, 14)
    shift = {"shifts": (3, -5), "dims": (2, 3)}
    torch.testing.assert_close(network(x.roll(**shift)), network(x).roll(**shift), rtol=1e-4, atol=1e-5)


def test_the_operator_cnn_has_the_published_widths_and_filters() -> None:
    network = operator_cnn(Request("dense", 3, 1, (64, 64)))
    operations = [layer.operation for layer in network.layers]
    assert [tuple(op.weight.shape) for op in operations] == [(32, 32, 13, 13)] * 4
    assert all(op.bias is None for op in operations)


def test_the_default_for_grids_knows_where_a_point_is_and_where_the_edge_is() -> None:
    """Zeros in, something else out at every point: the network sees coordinates; a shifted input is another input."""
    network = build_backbone("auto", Request("dense", 1, 1, (9, 12)), seed=0).eval()
    assert network(torch.zeros(1, 1, 9, 12)).flatten().unique().numel() > 100
    assert all(layer.operation.padding_mode == "zeros" for layer in network.layers)


@pytest.mark.parametrize("spatial", [(3,), (33,), (12, 17), (5, 6, 7)])
def test_a_unet_gives_every_grid_back_at_its_own_size(spatial: tuple[int, ...]) -> None:
    network = build_backbone("unet", Request("dense", 2, 3, spatial), seed=0)
    assert network(torch.randn(2, 2, *spatial)).shape == (2, 3, *spatial)


def test_a_unet_is_for_grids_alone() -> None:
    with pytest.raises(XDError, match="U-Net for classification"):
        build_backbone("unet", Request("classification", 1, 2, (16,)), seed=0)


def test_grids_smaller_than_the_filters_are_refused_with_both_sizes() -> None:
    with pytest.raises(XDError, match=r"a grid of 2 x 9.*size 3.*at least 3"):
        build_backbone("auto", Request("classification", 1, 2, (2, 9)), seed=0)


OWN = """
import torch
from torch import nn

def good(request):
    head = nn.Linear(4 * request.spatial[0], request.outputs)
    return nn.Sequential(nn.Conv1d(request.in_channels, 4, 5, padding=2), nn.Flatten(), head)

def wrong_outputs(request):
    return nn.Sequential(nn.Flatten(), nn.Linear(request.in_channels * request.spatial[0], request.outputs + 1))

def wrong_inputs(request):
    return nn.Linear(3, 3)

def raises(request):
    return request.no_such_thing

def not_a_network(request):
    return 5

def both_ways(request):
    return nn.Conv1d(request.in_channels, request.outputs, 3, padding=1)

class ToThePast(nn.Conv1d):
    def forward(self, x):
        return super().forward(nn.functional.pad(x, (2, 0)))

def past(request):
    return ToThePast(request.in_channels, request.outputs, 3)

class Paired(ToThePast):
    def forward(self, x):  # a step sees the other of its pair: every second one looks ahead
        coarse = nn.functional.avg_pool1d(x, 2, ceil_mode=True)
        return super().forward(coarse).repeat_interleave(2, dim=2)[..., : x.shape[2]]

def paired(request):
    return Paired(request.in_channels, request.outputs, 3)

def one_size(request):
    return nn.Sequential(past(request), nn.Unflatten(2, request.spatial))

def too_short(request):
    from xdops import XDOperation

    conv = nn.Conv1d(request.in_channels, request.outputs, 3, padding=1)
    return XDOperation.from_conv(conv, input_size=8, causal=True)
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    sys.modules.pop("own_networks", None)
    return "own_networks"


def test_a_users_function_in_the_current_folder_builds_the_backbone(own_module: str) -> None:
    network = build_backbone(f"{own_module}:good", Request("classification", 2, 3, (16,)), seed=0)
    assert network(torch.randn(5, 2, 16)).shape == (5, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_networks:missing", "no function 'missing'.*good, wrong_outputs"),
        ("own_networks:wrong_outputs", r"outputs \(2, 4\).*expected \(2, 3\)"),
        ("own_networks:wrong_inputs", r"fails on inputs of shape \(2, 2, 16\)"),
        ("own_networks:raises", "AttributeError.*no_such_thing"),
        ("own_networks:not_a_network", "returned a int"),
        ("no_such_package.models:build", "cannot be imported.*ModuleNotFoundError"),
        ("resnet", "auto, residual, small, operator, .*, or package.module:function"),
    ],
)
def test_a_backbone_that_does_not_fit_is_refused_with_the_reason(own_module: str, name: str, message: str) -> None:
    with pytest.raises(XDError, match=message):
        build_backbone(name, Request("classification", 2, 3, (16,)), seed=0)


@pytest.mark.parametrize("steps", [1, 2, 11, 12])
@pytest.mark.parametrize("name", ["auto", "tcn", "undilated-tcn", "own_networks:past"])
def test_networks_that_look_back_alone_are_taken_for_sequences(own_module: str, name: str, steps: int) -> None:
    network = build_backbone(name, Request("next-step", 2, 2, (steps,)), seed=0)
    assert network.training
    assert network(torch.randn(3, 2, steps)).shape == (3, 2, steps)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("operator", "operator, whose outputs at the first .* depend on the later ones.*--backbone tcn"),
        ("periodic", "depend on the later ones"),
        ("own_networks:both_ways", "depend on the later ones"),
        ("own_networks:paired", "depend on the later ones"),
        ("own_networks:one_size", r"fails on inputs of shape \(2, 2, \d+\)"),
        ("residual", r"outputs \(2, 2\) .*--backbone tcn"),
        ("own_networks:too_short", r"too_short with an input of length (\d+).* input_size=\1"),
    ],
)
@pytest.mark.parametrize("steps", [40, 41, 42, 43])
@pytest.mark.parametrize("kind", ["next-step", "sequence-class"])
def test_networks_that_look_ahead_or_take_one_length_are_refused_for_sequences(
    own_module: str, name: str, message: str, steps: int, kind: TaskKind
) -> None:
    with pytest.raises(XDError, match=message):
        build_backbone(name, Request(kind, 2, 2, (steps,)), seed=0)
