"""The FNO: its layer against the plain DFT and against neuraloperator's, its network, and the XD-operation that it becomes."""

import copy
import math
from itertools import product

import numpy as np
import pytest
import torch
from make_fno_reference import CASES, FILE, name, neuraloperator
from torch import nn
from torch.nn.utils import parametrize

from xdops import XDConfig, arch_parameters, convert_, merge_, novelty, revert_, weight_parameters
from xdops.backbones import Request, build_backbone, operator_cnn, operator_fno
from xdops.backbones.fno import SpectralConv
from xdops.errors import XDError
from xdops.operations import XDOperation
from xdops.operations.catalogue.fourier import from_filters, from_spectral_conv, to_filters
from xdops.search.packing import load_network, pack_network

#: Grids and modes: primes and composites, few modes and as many as the grid holds, one number of modes per dimension.
GRIDS = [
    ((16,), (4,)), ((31,), (16,)), ((40,), (20,)), ((85,), (12,)),
    ((8, 10), (3, 2)), ((6, 23), (3, 12)), ((5, 4, 6), (2, 2, 1)), ((4, 3, 5), (2, 1, 3)),
]  # fmt: skip
on_grids = pytest.mark.parametrize(("sizes", "modes"), GRIDS, ids=lambda v: "x".join(map(str, v)))


def layer_and_input(sizes, modes, dtype=torch.float64):
    layer = SpectralConv(2, 3, modes, dtype=dtype)
    nn.init.normal_(layer.weight)
    return layer, torch.randn(2, 2, *sizes, dtype=dtype, requires_grad=True)


def by_definition(x, weight, modes, off=0):
    """The sum over kept frequencies f of Re(c_f w_f x^_f exp(2 pi i f t / n)) / n, as products with dense DFT matrices.

    off: outputs are at frequencies f - off in all odd dimensions but the last.
    """
    *first, last = modes
    w = torch.view_as_complex(weight)
    y = torch.zeros(())
    for corner, negative in enumerate(product((False, True), repeat=len(first))):
        kept = [*(torch.arange(-m, 0) if n else torch.arange(m) for m, n in zip(first, negative, strict=True)), torch.arange(last)]
        z = x.to(w.dtype)
        for dim, f in enumerate(kept, start=2):
            z = (z.movedim(dim, -1) @ waves(-f, x.shape[dim], w.dtype).T).movedim(-1, dim)
        z = torch.einsum("bi...,io...->bo...", z, w[corner]) * torch.where(kept[-1] == 0, 1, 2)
        for dim, f in enumerate(kept, start=2):
            n = x.shape[dim]
            shifted = f - off if n % 2 and dim < x.dim() - 1 else f
            z = (z.movedim(dim, -1) @ waves(shifted, n, w.dtype) / n).movedim(-1, dim)
        y = y + z.real
    return y


def waves(frequencies, n, dtype):
    """exp(2 pi i f t / n), (f, t)."""
    turns = frequencies[:, None] * torch.arange(n)
    return torch.polar(torch.ones(turns.shape, dtype=torch.float64), turns.double() * (2 * math.pi / n)).to(dtype)


def gradients(y, *inputs):
    """Of a function of y that tells all its entries apart."""
    return torch.autograd.grad((y * torch.arange(y.numel()).view_as(y).cos()).sum(), inputs)


def equal(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.detach().abs().max()))


# The layer.


@on_grids
def test_the_layer_is_the_truncated_dft_that_its_formula_says_with_its_gradients(sizes, modes):
    layer, x = layer_and_input(sizes, modes)
    y, expected = layer(x), by_definition(x, layer.weight, modes)
    equal(y, expected)
    for ours, theirs in zip(gradients(y, x, layer.weight), gradients(expected, x, layer.weight), strict=True):
        equal(ours, theirs)


def compare_with_neuraloperator(sizes, modes, weight, x, expected):
    """Its weights are one block with negative frequencies first; fft and inverse, scaled the other way round, cancel alike.

    It shifts frequencies by n // 2 on the way in and once more by n // 2 on the way out, so that in odd dimensions, but for the
    last one, its outputs are one frequency below where its inputs were. There it is compared by the definition with that offset.
    """
    weight, x, expected = (torch.from_numpy(a) for a in (weight, x, expected))
    for dim, m in enumerate(modes[:-1], start=2):
        weight = weight.roll(m, dims=dim)
    own = from_filters(torch.view_as_real(weight).transpose(0, 1), modes)
    if any(n % 2 for n in sizes[:-1]):
        y = by_definition(x.double(), own.double(), modes, off=1).float()
    else:
        layer = SpectralConv(x.shape[1], expected.shape[1], modes)
        layer.weight.data = own
        y = layer(x).detach()
    equal(y, expected, 1e-5)


@pytest.mark.parametrize(("sizes", "modes"), CASES, ids=lambda v: name(v))
def test_the_layer_computes_what_neuraloperators_computed_on_equal_weights(sizes, modes):
    with np.load(FILE, allow_pickle=False) as arrays:
        compare_with_neuraloperator(sizes, modes, *(arrays[f"{name(sizes)} {part}"] for part in ("weight", "input", "output")))


@pytest.mark.parametrize(("sizes", "modes"), CASES, ids=lambda v: name(v))
def test_the_layer_computes_what_neuraloperators_computes_where_it_is_installed(sizes, modes):
    pytest.importorskip("neuralop")
    compare_with_neuraloperator(sizes, modes, *neuraloperator(sizes, modes))


@pytest.mark.parametrize(("sizes", "modes"), [((7,), (5,)), ((8,), (5,)), ((7, 8), (4, 2)), ((6, 6, 4), (3, 3, 3))])
def test_modes_that_would_share_a_frequency_are_refused_with_both_sizes(sizes, modes):
    layer, x = layer_and_input(sizes, modes)
    with pytest.raises(XDError, match=r"points.*at least twice the modes"):
        layer(x)
    with pytest.raises(XDError, match=r"points.*at least twice the modes"):
        from_spectral_conv(layer, sizes)


def test_weights_come_back_from_an_operations_arrangement():
    layer, _ = layer_and_input((6, 6, 6), (1, 2, 3))
    filters = to_filters(layer.weight, layer.modes)
    assert filters.shape == (3, 2, 2, 4, 3, 2)
    assert torch.equal(from_filters(filters, layer.modes), layer.weight)


# The network.


@pytest.mark.parametrize(
    ("sizes", "width", "modes"), [((256,), 64, (16,)), ((85, 85), 32, (12, 12)), ((16, 16, 20), 20, (8, 8, 8))]
)
def test_the_fno_has_the_published_widths_and_modes_and_differs_from_the_cnn_in_its_operations_only(sizes, width, modes):
    request = Request("dense", 3, 2, sizes)
    fno, cnn = operator_fno(request), operator_cnn(request)
    assert [layer.operation.modes for layer in fno.layers] == [modes] * 4
    assert fno.layers[0].operation.weight.shape[1:3] == (width, width)
    shapes = [{k: v.shape for k, v in net.state_dict().items() if "operation" not in k} for net in (fno, cnn)]
    assert shapes[0] == shapes[1]


def test_modes_are_one_number_or_one_per_dimension_and_shrink_to_what_the_grid_holds():
    def modes(sizes, **options):
        return operator_fno(Request("dense", 1, 1, sizes), 4, **options).layers[0].operation.modes

    assert modes((64, 64, 20), modes=(8, 8, 4)) == (8, 8, 4)
    assert modes((30, 30), modes=5) == (5, 5)
    assert modes((9, 9)) == (4, 5)
    assert modes((10, 10, 10)) == (5, 5, 5)
    with pytest.raises(XDError, match=r"a grid of 1 x 9.*at least 2 points"):
        modes((1, 9))
    with pytest.raises(XDError, match=r"modes \(4, 4\).*3 of them"):
        modes((8, 8, 8), modes=(4, 4))
    with pytest.raises(XDError, match="modes 0"):
        modes((8,), modes=0)


@pytest.mark.parametrize("sizes", [(33,), (12, 17), (5, 6, 7)])
def test_both_networks_are_built_by_name_for_any_grid(sizes):
    request = Request("dense", 2, 3, sizes)
    x = torch.randn(2, *request.input_shape)
    assert build_backbone("fno", request, seed=0)(x).shape == (2, *request.output_shape)
    cnn, operator = (build_backbone(n, request, seed=0) for n in ("cnn", "periodic"))
    assert torch.equal(cnn(x), operator(x))


# The operation.


def operation_of(layer, x, **config):
    """The converted layer, evaluated by its architecture alone."""
    net = nn.Sequential(copy.deepcopy(layer))
    report = convert_(net, x.detach(), XDConfig(**config))
    assert [row.was for row in report.converted] == [f"SpectralConv {'x'.join(map(str, layer.modes))} modes"]
    op = net[0]
    assert isinstance(op, XDOperation)
    op.source = None
    return net, op, report


@on_grids
def test_a_converted_layer_is_the_same_function_at_depth_1_1_1_with_its_gradients(sizes, modes):
    layer, x = layer_and_input(sizes, modes)
    _, op, report = operation_of(layer, x)
    assert (op.sizes, op.depth) == (sizes, (1, 1, 1))
    assert report.error < 1e-12
    y, expected = op(x), layer(x)
    equal(y, expected)
    (ours_x, ours_w), (layer_x, layer_w) = gradients(y, x, op.weight), gradients(expected, x, layer.weight)
    equal(ours_x, layer_x)
    equal(from_filters(ours_w, modes), layer_w)


@on_grids
def test_a_converted_layer_is_the_same_function_in_single_precision(sizes, modes):
    layer, x = layer_and_input(sizes, modes, torch.float32)
    _, op, _ = operation_of(layer, x)
    equal(op(x), layer(x), 1e-5)


@pytest.mark.parametrize("depth", [2, 3, (2, 1, 4), (1, 3, 1)])
def test_any_depth_and_trained_b_and_C_start_as_the_layer(depth):
    layer, x = layer_and_input((8, 10), (3, 2))
    _, op, _ = operation_of(layer, x, depth=depth, b="trained", C="trained")
    assert op.depth == ((depth,) * 3 if isinstance(depth, int) else depth)
    assert op.trained == set("KLMbC")
    equal(op(x), layer(x))


def test_all_forms_of_the_definition_agree_after_the_architecture_has_moved():
    layer, x = layer_and_input((6, 10), (3, 2))
    _, op, _ = operation_of(layer, x, depth=2, perturb=0.1)
    assert (op(x) - layer(x)).abs().max() > 0.01
    equal(op.evaluate(x, "staged"), op(x))


def test_while_its_architecture_is_frozen_and_untouched_the_operation_is_evaluated_as_the_layer():
    layer, x = layer_and_input((9, 8), (3, 2))
    net = nn.Sequential(layer)
    convert_(net, x.detach())
    net[0].freeze()
    assert net[0].plan_for(x).form == "source"
    y = net(x)
    assert torch.equal(y, layer(x))
    (grad,) = gradients(y, net[0].weight)
    equal(from_filters(grad, layer.modes), gradients(layer(x), layer.weight)[0])
    net[0].unfreeze()
    assert net[0].plan_for(x).form != "source"


def test_it_refuses_any_grid_but_its_own():
    layer, x = layer_and_input((12,), (3,))
    _, op, _ = operation_of(layer, x)
    for n in (11, 13):
        with pytest.raises(XDError, match=rf"length {n}.*12, the grid"):
            op(torch.randn(2, 2, n, dtype=torch.float64))


def fno(sizes=(12,), **options):
    """A small network with statistics of its own in the batch norms, and an input."""
    net = operator_fno(Request("dense", 2, 1, sizes), width=4, **options).double()
    x = torch.randn(3, 2, *sizes, dtype=torch.float64)
    net(x)
    return net.eval(), x


@pytest.mark.parametrize("sizes", [(30,), (9, 8), (6, 5, 4)])
def test_a_whole_fno_becomes_an_xd_network_that_computes_the_same(sizes):
    net, x = fno(sizes)
    expected, weights = net(x), sum(p.numel() for p in net.parameters())
    report = convert_(net, x, XDConfig(pointwise=False))
    assert [row.name for row in report.converted] == [f"layers.{i}.operation" for i in range(4)]
    equal(net(x), expected)
    assert sum(p.numel() for p in weight_parameters(net)) == weights
    assert sum(p.numel() for p in arch_parameters(net)) == report.architecture
    assert set(novelty(net).values()) == {0.0}
    merge_(net)
    with torch.no_grad():
        equal(net(x), expected)


@pytest.mark.trains
@pytest.mark.parametrize("sizes", [(12,), (6, 5), (4, 3, 4)])
def test_training_lowers_the_loss_and_moves_weights_and_architecture(sizes):
    net, x = fno(sizes)
    convert_(net, x, XDConfig(depth=2, pointwise=False))
    net.train()
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    target = x[:, :1].roll(1, dims=-1).square()
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = (net(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert min(novelty(net).values()) > 1e-3
    pointwise_biases = {
        id(p) for n, p in net.named_parameters() if n.endswith("pointwise.bias")
    }  # batch norm takes them away again
    moved = [not torch.equal(p, b) for p, b in zip(net.parameters(), before, strict=True) if id(p) not in pointwise_biases]
    assert all(moved)


def test_revert_gives_the_same_layers_back_with_their_trained_weights():
    net, x = fno((6, 8))
    layers = [layer.operation for layer in net.layers]
    convert_(net, x, XDConfig(pointwise=False))
    with torch.no_grad():
        for p in weight_parameters(net):
            p.add_(0.1 * torch.randn_like(p))
    expected = net(x)
    report = revert_(net)
    assert report.exact
    assert [layer.operation for layer in net.layers] == layers
    equal(net(x), expected)


def test_revert_says_what_is_lost_and_keeps_the_dtype_that_the_network_has_now():
    net, x = fno((9,))
    net.float()
    convert_(net, x.float(), XDConfig(pointwise=False))
    net.double()
    assert set(novelty(net).values()) == {0.0}
    net.layers[1].operation.K[0].values[0].data.mul_(1.5)
    changes = [row.change for row in revert_(net).layers]
    assert changes[0] == changes[2] == changes[3] == 0 < changes[1]
    assert net(x).dtype == torch.float64


def test_a_checkpoint_restores_a_moved_network():
    first, x = fno((6, 5))
    second, _ = fno((6, 5))
    for net in (first, second):
        convert_(net, x, XDConfig(pointwise=False))
    with torch.no_grad():
        for p in first.parameters():
            p.add_(0.1 * torch.randn_like(p))
    load_network(second, *pack_network(first))
    assert torch.equal(second(x), first(x))
    assert novelty(second) == novelty(first)


class Twice(nn.Module):
    """One layer on two grids."""

    def __init__(self):
        super().__init__()
        self.layer = SpectralConv(1, 1, (2,))

    def forward(self, x):
        return self.layer(x), self.layer(x[..., ::2])


class Halved(SpectralConv):
    def forward(self, x):
        return super().forward(x) / 2


class Scale(nn.Module):
    def forward(self, w):
        return 2 * w


def tied():
    net = nn.Sequential(SpectralConv(1, 1, (2,)), SpectralConv(1, 1, (2,)))
    net[1].weight = net[0].weight
    return net


def computed():
    layer = SpectralConv(1, 1, (2,))
    parametrize.register_parametrization(layer, "weight", Scale())
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("make", "config", "why"),
    [
        (Twice, {}, "grids of 4 and 8 points"),
        (lambda: nn.Sequential(Halved(1, 1, (2,))), {}, "a forward of its own"),
        (tied, {}, "shared or computed"),
        (computed, {}, "shared or computed"),
        (lambda: nn.Sequential(SpectralConv(1, 1, (2,))), {"causal": True}, "causal"),
        (lambda: nn.Sequential(SpectralConv(1, 1, (2,))), {"convs": False}, "convs=False"),
    ],
)
def test_what_no_operation_can_stand_for_is_left_alone_with_the_reason(make, config, why):
    report = convert_(make(), torch.randn(2, 1, 8), XDConfig(**config))
    assert not report.converted
    assert all(why in row.why for row in report.left_alone)
    assert report.left_alone
