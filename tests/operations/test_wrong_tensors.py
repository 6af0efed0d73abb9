"""Tensors of shapes that an operation was not made for, and settings that it cannot follow, are refused, whoever put them there."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import xdops
from xdops import XDOperation
from xdops.errors import XDError
from xdops.operations import ShiftInvariantOperation

MADE = {
    "signals": (lambda: XDOperation.from_conv(nn.Conv1d(3, 4, 3, padding=1), 20), (4, 3, 20)),
    "frozen": (lambda: XDOperation.from_conv(nn.Conv1d(3, 4, 3, padding=1), 20).freeze(), (4, 3, 20)),
    "causal": (lambda: XDOperation.from_conv(nn.Conv1d(3, 4, 3, padding=2), 20, causal=True), (4, 3, 20)),
    "images": (lambda: XDOperation.from_conv(nn.Conv2d(3, 4, 3, padding=1), (16, 16)), (4, 3, 16, 16)),
    "transposed": (lambda: XDOperation.from_conv(nn.ConvTranspose2d(3, 4, 3, padding=1), (8, 8), domain="full"), (4, 3, 8, 8)),
    "groups": (lambda: XDOperation.from_conv(nn.Conv1d(4, 4, 3, padding=1, groups=2), 20), (4, 4, 20)),
    "shift-invariant": (lambda: ShiftInvariantOperation.from_conv(nn.Conv1d(3, 4, 3, padding=1), 8), (4, 3, 20)),
}


def _wrong(weight: Tensor) -> list[tuple[int, ...]]:
    """A tap more and many more, other channels on either side, a dimension less and one more."""
    out, into, *kernel = weight.shape
    return [
        (out, into, kernel[0] + 1, *kernel[1:]), (out, into, 50, *kernel[1:]), (out, into + 1, *kernel), (out, 1, *kernel),
        (out + 1, into, *kernel), (out, into), (out, into, *kernel, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("way", ["assigned", "data", "functional_call", "merged"])
def test_filters_of_another_shape_are_refused(name: str, way: str) -> None:
    make, size = MADE[name]
    x = torch.randn(size)
    for shape in _wrong(make().weight):
        op, w = make(), torch.randn(shape)
        if shape == tuple(op.weight.shape):
            continue
        if way == "data":
            op.weight.data = w
        elif way != "functional_call":
            op.weight = nn.Parameter(w)
        calls = {
            "merged": lambda op=op: op.merged(),
            "functional_call": lambda op=op, w=w: functional_call(op, {"weight": w}, (x,)),
        }
        call = calls.get(way, lambda op=op: op(x))
        with pytest.raises(XDError, match=r"weight of shape .*; expected \(.*\), for which the operation was made"):
            call()


@pytest.mark.parametrize("name", ["signals", "images"])
def test_bias_b_and_C_of_another_shape_are_refused(name: str) -> None:
    conv, size = {"signals": (nn.Conv1d(3, 4, 3, padding=1), 20), "images": (nn.Conv2d(3, 4, 3, padding=1), (6, 8))}[name]
    x = torch.randn(2, 3, *([size] if isinstance(size, int) else size))
    for domain in ("half", "full"):
        op = XDOperation.from_conv(conv, size, b="trained", C="trained", domain=domain)
        op(x)
        for part in ("bias", "b", "C"):
            given = getattr(op, part)
            for wrong in (torch.cat([given, given]), given[:1], given[None]):
                with pytest.raises(XDError, match=f"{part} of shape"):
                    functional_call(op, {part: wrong.detach()}, (x,))


def test_fewer_channels_are_taken_where_the_operation_says_so_too() -> None:
    op = XDOperation.from_conv(nn.Conv2d(3, 4, 3, padding=1), (8, 8))
    smaller = nn.Conv2d(2, 4, 3, padding=1)
    op.weight, op.bias, op.in_channels = smaller.weight, smaller.bias, 2
    x = torch.randn(2, 2, 8, 8)
    torch.testing.assert_close(op(x), smaller(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("state", ["converted", "frozen", "moved", "merged"])
@pytest.mark.parametrize(
    ("attribute", "value"),
    [("stride", (2,)), ("padding", (0,)), ("dilation", (2,)), ("padding_mode", "circular"), ("kernel_size", (5,)), ("groups", 3)],
)
def test_another_geometry_is_refused_where_a_convolution_would_follow_it(state: str, attribute: str, value: object) -> None:
    network, x = nn.Sequential(nn.Conv1d(3, 6, 3, padding=1)), torch.randn(2, 3, 20)
    xdops.convert_(network, x)
    if state == "frozen":
        network[0].freeze()
    if state in ("moved", "merged"):
        with torch.no_grad():
            for parameter in network[0].arch_parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    if state == "merged":
        xdops.merge_(network)
    for layer in (network[0], copy.deepcopy(network[0]), pickle.loads(pickle.dumps(network[0]))):
        before, y = getattr(layer, attribute), layer(x)
        with pytest.raises(XDError, match=f"{attribute} = .* fixed when an operation is made"):
            setattr(layer, attribute, value)
        setattr(layer, attribute, before)  # nothing changes
        assert torch.equal(layer(x), y)


@pytest.mark.parametrize(("mode", "padding", "least"), [("reflect", 2, 3), ("circular", 3, 3)])
def test_inputs_that_are_too_short_to_be_padded_are_refused(mode: str, padding: int, least: int) -> None:
    conv = nn.Conv1d(2, 3, 3, padding=padding, padding_mode=mode)
    op, enough = XDOperation.from_conv(conv, 5), torch.randn(1, 2, least)
    torch.testing.assert_close(op(enough), conv(enough), rtol=1e-5, atol=1e-5)
    with pytest.raises(XDError, match=f"an input of length {least - 1}; expected at least {least}, to be padded by"):
        op(enough[..., 1:])


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("part", ["K", "L", "M"])
@pytest.mark.parametrize("plan", ["auto", "definition"])
def test_an_architecture_that_is_elsewhere_in_part_is_refused(name: str, part: str, plan: str) -> None:
    """As `to_empty` or a load of some parameters leaves it: kernels would read where nothing is."""
    make, size = MADE[name]
    op = make()
    if name != "shift-invariant":
        op.plan = plan
    getattr(op, part).to("meta")
    for call in (lambda: op(torch.randn(size)), op.merged):
        with pytest.raises(
            XDError, match=r"part, on meta; expected all of it on one device|where the operation is, without values"
        ):
            call()
