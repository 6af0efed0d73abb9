"""The temporal convolutional network: what it computes, what it can see, and what windows make of it."""

import pytest
import torch
import torch.nn.functional as F

from xdops.backbones.request import Request
from xdops.backbones.tcn import TCN, TemporalBlock, WordTCN, receptive_field
from xdops.backbones.windows import InWindows, ShortDropout
from xdops.convert import XDConfig, arch_parameters, convert_

MUSIC = Request("dense", 5, 5, (30,))


def make(dilated: bool = True, levels: int = 2, kernel: int = 3, dropout: float = 0.0) -> TCN:
    torch.manual_seed(0)
    return TCN(MUSIC, levels, kernel, 6, dropout, dilated).double()


def test_a_block_is_two_causal_convolutions_and_a_shortcut():
    torch.manual_seed(0)
    block = TemporalBlock(3, 4, 2, 2, 0.0).double()
    x = torch.randn(2, 3, 9, dtype=torch.float64)

    def causal(x, conv):
        return F.conv1d(F.pad(x, (2, 0)), conv.weight, conv.bias, dilation=2).relu()

    expected = (causal(causal(x, block.conv1), block.conv2) + F.conv1d(x, block.shortcut.weight, block.shortcut.bias)).relu()
    torch.testing.assert_close(block(x), expected, rtol=1e-10, atol=1e-10)


def test_weights_are_normed_and_a_shortcut_of_equal_widths_adds_none():
    block = TemporalBlock(4, 4, 2, 1, 0.0)
    assert block.shortcut is None
    norms = block.conv1.weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, block.conv1.parametrizations.weight.original0.flatten())


@pytest.mark.parametrize("dilated", [True, False])
def test_an_output_sees_its_receptive_field_and_nothing_later(dilated):
    network, t = make(dilated), 25
    x = torch.randn(1, 5, 30, dtype=torch.float64, requires_grad=True)
    seen = torch.autograd.grad(network(x)[0, :, t].sum(), x)[0][0].abs().sum(0) > 0
    field = receptive_field(2, 3, dilated)
    assert field == (13 if dilated else 9)
    assert not seen[t + 1 :].any()
    assert not seen[: t + 1 - field].any()
    assert seen[t + 1 - field]
    assert seen[t]


def test_dilations_double_with_the_level_or_are_all_one():
    assert [block.conv2.dilation for block in make(levels=3).levels] == [(1,), (2,), (4,)]
    assert [block.conv2.dilation for block in make(False, levels=3).levels] == [(1,)] * 3


def test_a_classification_is_what_is_said_at_the_last_step():
    torch.manual_seed(0)
    network = TCN(Request("classification", 1, 10, (20,)), 2, 3, 4)
    x = torch.randn(2, 1, 20)
    network.last = False
    every = network(x)
    network.last = True
    assert network(x).shape == (2, 10)
    torch.testing.assert_close(network(x), every[..., -1])


def test_the_words_decoder_is_the_embedding():
    network = WordTCN(50, 8, 2, 3, last=4, dropout=0.1, embedding_dropout=0.1)
    assert network.decoder.weight is network.embedding.weight
    assert sum(p is network.embedding.weight for p in network.parameters()) == 1
    assert network(torch.randint(50, (2, 9))).shape == (2, 50, 4)


@pytest.mark.parametrize("searched", [False, True])
def test_a_network_whose_last_level_says_its_last_step_alone_says_the_same_there(searched):
    network, x = make().eval(), torch.randn(2, 5, 12, dtype=torch.float64)
    if searched:
        convert_(network, x, XDConfig(depth=(1, 3, 1), pointwise=False))
        with torch.no_grad():
            for parameter in arch_parameters(network):
                parameter += 0.1 * torch.randn_like(parameter)
    expected = network(x)[..., -1:]
    network.levels[-1].last_only = True
    torch.testing.assert_close(network(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_short_dropout_drops_as_often_as_it_is_told_and_keeps_the_mean(p):
    torch.manual_seed(0)
    layer, x = ShortDropout(p), torch.ones(101, 3, 333, requires_grad=True)
    y = layer(x)
    dropped = (y == 0).float()
    assert abs(float(dropped.mean()) - p) < 6 * (p * (1 - p) / x.numel()) ** 0.5
    assert abs(float((dropped[..., 1:] * dropped[..., :-1]).mean()) - p * p) < 0.01  # neighbours share a draw, not their fate
    torch.testing.assert_close(y[y > 0].unique(), torch.tensor([1 / (1 - p)]), rtol=1e-4, atol=0)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], y)
    assert not torch.equal(layer(x), y)
    assert torch.equal(layer.eval()(x), x)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_short_dropout_of_nothing_and_of_everything(p):
    assert torch.equal(ShortDropout(p)(torch.ones(5)), torch.full((5,), 1 - p))


def test_windows_longer_than_the_receptive_field_change_a_causal_network_only_near_the_beginning():
    network = make()
    x = torch.randn(2, 5, 30, dtype=torch.float64)
    field = receptive_field(2, 3, True)
    given = InWindows(network, field)(x)
    # Left of the beginning a network in windows sees zeros as inputs, a plain one zeros as features.
    torch.testing.assert_close(given[..., field:], network(x)[..., field:], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(given[..., : field // 2], network(x)[..., : field // 2])


def test_a_network_in_windows_never_sees_what_comes_later():
    class Everywhere(torch.nn.Module):
        def forward(self, x):
            return x + x.sum(-1, keepdim=True)

    x = torch.randn(1, 2, 12, requires_grad=True)
    windows = InWindows(Everywhere(), 4)
    for t in (0, 5, 11):
        seen = torch.autograd.grad(windows(x)[0, :, t].sum(), x)[0][0].abs().sum(0) > 0
        assert seen.nonzero().flatten().tolist() == list(range(max(0, t - 3), t + 1))
