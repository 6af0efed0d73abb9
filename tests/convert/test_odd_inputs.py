"""Inputs of converted networks: any strides and batches are taken, what is no input is refused; lines of docs/compatibility.md."""

from collections.abc import Callable

import pytest
import torch
from converted import KINDS, SPACES, X, configured, network
from torch import nn

from xdops import XDConfig, XDError, convert_, merge_


@KINDS
@pytest.mark.parametrize("merged", [False, True])
def test_inputs_in_any_strides_and_of_any_batch(kind, merged):
    model = configured(kind)
    expected = model(X)
    if merged:
        merge_(model)
    for x in (X.transpose(1, 2).contiguous().transpose(1, 2), torch.stack((X, X), -1)[..., 0], torch._neg_view(-X)):
        torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model(X[:1].expand(4, -1, -1)), expected[:1].expand(4, -1, -1))
    for batch in (1, 0):
        x = X[:batch].clone().requires_grad_()
        y = model(x)
        torch.testing.assert_close(y, expected[:batch])
        y.sum().backward()
        assert x.grad.shape == x.shape


@SPACES
def test_channels_last(convert):
    model = network(convert, dims=2)
    x = torch.randn(3, 2, 12, 12)
    expected = model(x)
    given = model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(given, expected)
    merge_(model)
    torch.testing.assert_close(model(x.to(memory_format=torch.channels_last)), expected)


STRANGE: dict[str, Callable[[], object]] = {
    "an input of type ndarray": lambda: X.numpy(),
    "an input that is torch.sparse_coo": X.to_sparse,
    "an input that is nested": lambda: torch.nested.nested_tensor([*X]),
    "an input on meta": lambda: X.to("meta"),
}


@KINDS
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("given", STRANGE)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_inputs_without_all_their_numbers_are_refused(kind, merged, given):
    model = configured(kind)
    if merged and kind == "filters":
        pytest.skip("merged, it is a convolution of torch's own")
    if merged:
        merge_(model)
    with pytest.raises(XDError, match=given):
        model(STRANGE[given]())


@pytest.mark.parametrize("merged", [False, True])
def test_inputs_of_no_length_are_refused(merged):
    model = nn.Sequential(nn.ConvTranspose1d(2, 3, 4, stride=2))
    convert_(model, X, XDConfig(perturb=0.01))
    if merged:
        merge_(model)
    with pytest.raises(XDError, match=r"an input of length 0.*at least 1"):
        model(X[..., :0])


@pytest.mark.parametrize("merged", [False, True])
def test_complex_inputs_are_refused(merged):
    model = network()
    if merged:
        merge_(model)
    for autocast in (False, True):
        with (
            torch.autocast("cpu", torch.bfloat16, enabled=autocast),
            pytest.raises(XDError, match=r"complex64.*its parts as channels"),
        ):
            model(X.to(torch.complex64))


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_complex_parameters_are_refused():
    with pytest.raises(XDError, match=r"parameters are torch\.complex64.*stored as pairs"):
        configured().to(torch.complex64)(X.to(torch.complex64))
