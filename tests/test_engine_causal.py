"""A causal operation never sees the future: not at its start, not after training, exactly."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xdops import XDError, XDOperation


def causal(
    kernel: int, dilation: int, m: int, dtype: torch.dtype = torch.float64, **options: object
) -> tuple[nn.Module, XDOperation]:
    conv = nn.Conv1d(2, 3, kernel, padding=(kernel - 1) * dilation, dilation=dilation, dtype=dtype)
    return conv, XDOperation.from_conv(conv, m, causal=True, **options)


def future_gradients(op: XDOperation, m: int) -> float:
    """The largest gradient of any output t with respect to any input after t."""
    x = torch.randn(1, 2, m, dtype=torch.float64, requires_grad=True)
    y = op(x)
    worst = 0.0
    for t in range(m):
        (g,) = torch.autograd.grad(y[0, :, t].sum(), x, retain_graph=True)
        worst = max(worst, float(g[0, :, t + 1 :].abs().max()) if t + 1 < m else 0.0)
    return worst


@pytest.mark.parametrize("kernel", [1, 2, 6])
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("m", [9, 31])
def test_a_causal_convolution_converts_exactly(kernel: int, dilation: int, m: int):
    conv, op = causal(kernel, dilation, m)
    x = torch.randn(2, 2, m, dtype=torch.float64, requires_grad=True)
    assert op.plan_for(x).form == "taps"
    torch.testing.assert_close(op(x), conv(x), rtol=0, atol=1e-10)
    torch.testing.assert_close(op.evaluate(x, "staged"), conv(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"depth": 3}, {"b": "trained", "C": "trained"}])
def test_nothing_leaks_from_the_future_even_after_training(options: dict):
    m = 20
    _, op = causal(3, 2, m, **options)
    optimizer = torch.optim.Adam(op.parameters(), lr=0.05)
    assert future_gradients(op, m) == 0
    for _ in range(5):
        x = torch.randn(4, 2, m, dtype=torch.float64)
        optimizer.zero_grad()
        (op(x)[..., :m] - x.flip(2).sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    assert not op.untouched
    assert future_gradients(op, m) == 0
    # Without the mask the same architecture does look ahead, so the test above can fail.
    free = XDOperation(op.axes, op.weight, *([k.matrix for k in getattr(op, name)] for name in "KLM"), b=op.b, C=op.C, bias=op.bias)
    assert future_gradients(free, m) > 1e-3


def test_long_sequences_are_masked_block_by_block(monkeypatch):
    from xdops.operations import evaluate

    monkeypatch.setattr(evaluate, "CAUSAL_BLOCK", 8)
    _, op = causal(3, 1, 50)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.2 * torch.randn_like(p))
    x = torch.randn(2, 2, 50, dtype=torch.float64, requires_grad=True)
    parameters = [x, *op.parameters()]
    weights = torch.randn_like(op(x))
    given = torch.autograd.grad((op(x) * weights).sum(), parameters)
    expected = torch.autograd.grad((op.evaluate(x, "staged") * weights).sum(), parameters)
    for g, e in zip(given, expected, strict=True):
        torch.testing.assert_close(g, e, rtol=1e-10, atol=1e-10)


def test_padding_outside_the_layer_is_causal_as_well():
    conv = nn.Conv1d(2, 2, 4, dtype=torch.float64)
    x = torch.randn(1, 2, 12, dtype=torch.float64)
    op = XDOperation.from_conv(conv, 15, causal=True)
    torch.testing.assert_close(op(F.pad(x, (3, 0))), conv(F.pad(x, (3, 0))), rtol=0, atol=1e-10)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.3 * torch.randn_like(p))
    later = x.clone()
    later[..., 7:] += 1
    torch.testing.assert_close(op(F.pad(x, (3, 0)))[..., :7], op(F.pad(later, (3, 0)))[..., :7], rtol=0, atol=0)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(1, 1, 3),
        nn.Conv1d(1, 1, 3, stride=2),
        nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"),
        nn.ConvTranspose1d(1, 1, 3),
    ],
)
def test_layers_that_cannot_be_causal_are_refused(conv: nn.Module):
    with pytest.raises(XDError, match="stride 1 and zeros"):
        XDOperation.from_conv(conv, (8,) * len(conv.kernel_size), causal=True)


def test_a_spectral_plan_is_refused_for_a_causal_operation():
    _, op = causal(2, 1, 8)
    op.plan = "spectral"
    with pytest.raises(XDError, match="taps"):
        op(torch.randn(1, 2, 8, dtype=torch.float64))
