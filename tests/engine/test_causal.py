"""A causal operation never sees the future: not at its start, not after training, exactly."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from xdops import XDError, XDOperation
from xdops.engine.forms import grouped_taps, past
from xdops.engine.forms import taps as plain_taps
from xdops.engine.machine import rates
from xdops.engine.plan import Plan
from xdops.engine.planner import possible_plans
from xdops.engine.workload import Workload
from xdops.matrices import random_gaussian
from xdops.operations import Axis

#: The forms that can be causal.
CAUSAL = ("taps", "taps-grouped", "past")


def plans(work: Workload) -> list[str | Plan]:
    """Every way to evaluate it, the past of every number of blocks among them, with either kind of matrices beside it."""
    found: list[str | Plan] = [name for name in possible_plans(work) if name != "past"]
    for blocks in past.BLOCKS if "past" in possible_plans(work) else ():
        own = past.plan_blocks(work, rates(), blocks)
        if own is not None:
            found += [own, dataclasses.replace(own, grouping=())]
    return found


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
    assert op.plan_for(x).form in CAUSAL
    torch.testing.assert_close(op(x), conv(x), rtol=0, atol=1e-10)
    torch.testing.assert_close(op.evaluate(x, "staged"), conv(x), rtol=0, atol=1e-10)


@st.composite
def causal_operations(draw) -> tuple[XDOperation, Tensor]:
    """Random matrices of mixed radices, prime sizes among them, with strides, groups, b, C and any distance into the future."""
    radices = draw(st.lists(st.sampled_from([2, 3, 4, 5]), min_size=2, max_size=3) | st.just([7]))
    n, depth = math.prod(radices), draw(st.tuples(*[st.sampled_from([1, 1, 2, 3])] * 3))
    m, stride, growth = draw(st.integers(1, n)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    growth = min(growth, n - m)
    groups, k = draw(st.integers(1, 2)), draw(st.integers(1, min(n, 4)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 100)))
    K, L, M = (random_gaussian(n, d, radices, generator, torch.float64) for d in depth)
    c_in, c_out = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    op = XDOperation(
        [Axis(n, stride=stride, growth=growth)],
        numbers(c_out, c_in // groups, k),
        *([K.transpose()], [L], [M]),
        b=numbers(n, 2) if draw(st.booleans()) else None,
        C=numbers(c_out, c_in // groups, 2) if draw(st.booleans()) else None,
        bias=numbers(c_out) if draw(st.booleans()) else None,
        groups=groups,
        causal=draw(st.integers(-n, n)),
    )
    return op, numbers(draw(st.integers(1, 3)), c_in, m).requires_grad_()


@settings(max_examples=80)
@given(causal_operations(), st.sampled_from([1, 100, 1 << 20]))
def test_every_causal_form_agrees_with_the_definition_in_values_and_gradients(case: tuple[XDOperation, Tensor], together: int):
    op, x = case
    inputs = [x, *op.parameters()]
    y = op.evaluate(x, "staged")
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    expected = [y, *torch.autograd.grad((y * weights).sum(), inputs, allow_unused=True)]
    shallow = op.depth[0] == op.depth[2] == 1 and len(op.K[0].layout[0][0]) > 1
    many = min(x.shape[2], y.shape[2]) > 1
    assert possible_plans(op.workload(x)) == ["taps", *["taps-grouped"] * shallow, *["past"] * many]
    before, grouped_taps.MADE_TOGETHER = grouped_taps.MADE_TOGETHER, together
    try:
        for plan in plans(op.workload(x)):
            op.plan = plan
            given = [op(x)]
            given += torch.autograd.grad((given[0] * weights).sum(), inputs, allow_unused=True)
            for g, e in zip(given, expected, strict=True):
                e = torch.zeros_like(g) if e is None else e
                assert (g - e).abs().max() <= 1e-10 * (1 + e.abs().max())
        for size in (None, x.shape[2]):
            torch.testing.assert_close(op.merged(size)(x), y, rtol=1e-10, atol=1e-10)
    finally:
        grouped_taps.MADE_TOGETHER = before


@pytest.mark.parametrize("extra", [{}, {"b": "trained", "C": "trained"}, {"depth": 3}])
@pytest.mark.parametrize(("size", "kernel"), [(2, 1), (13, 3), (30, 2)])
def test_every_causal_form_agrees_in_half_a_domain(size: int, kernel: int, extra: dict):
    conv = nn.Conv1d(2, 3, kernel, padding=kernel - 1, dtype=torch.float64)
    op = XDOperation.from_conv(conv, size, causal=True, domain="half", **extra)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(2, 2, size, dtype=torch.float64, requires_grad=True)
    inputs = [x, *op.parameters()]
    y = op.evaluate(x, "staged")
    expected = [y, *torch.autograd.grad(y.square().sum(), inputs)]
    assert possible_plans(op.workload(x)) == ["taps", *["taps-grouped"] * ("depth" not in extra), "past"]
    for plan in plans(op.workload(x)):
        op.plan = plan
        y = op(x)
        for g, e in zip([y, *torch.autograd.grad(y.square().sum(), inputs)], expected, strict=True):
            assert (g - e).abs().max() <= 1e-10 * (1 + e.abs().max())
        torch.testing.assert_close(op.merged(size)(x), y, rtol=1e-10, atol=1e-10)


def test_single_precision_agrees_in_every_causal_form():
    conv = nn.Conv1d(3, 4, 5, padding=4)
    op = XDOperation.from_conv(conv, 100, causal=True)
    x = torch.randn(2, 3, 100, requires_grad=True)
    expected = [y := op.evaluate(x, "staged"), *torch.autograd.grad(y.square().sum(), [x, *op.parameters()])]
    for form in CAUSAL:
        op.plan = form
        given = [y := op(x), *torch.autograd.grad(y.square().sum(), [x, *op.parameters()])]
        for g, e in zip(given, expected, strict=True):
            assert (g - e).abs().max() <= 1e-5 * (1 + e.abs().max())


@pytest.mark.parametrize("form", CAUSAL)
def test_second_derivatives_are_right_in_every_causal_form(form: str):
    _, op = causal(2, 1, 11, plan=form, b="trained")
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(2, 2, 11, dtype=torch.float64, requires_grad=True)
    parameters = [x, *op.parameters()]

    def gradients(evaluate):
        first = torch.autograd.grad(evaluate(x).pow(3).sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), parameters)

    for g, e in zip(gradients(op), gradients(lambda x: op.evaluate(x, "staged")), strict=True):
        assert (g - e).abs().max() <= 1e-10 * (1 + e.abs().max())


@pytest.mark.parametrize("form", ["taps-grouped", "past"])
def test_only_wanted_gradients_are_computed_and_a_second_backward_gives_the_same(form: str):
    _, op = causal(3, 1, 30, plan=form)
    x = torch.randn(2, 2, 30, dtype=torch.float64)
    y = op(x).square().sum()
    first = torch.autograd.grad(y, list(op.parameters()), retain_graph=True)
    op(torch.randn_like(x)).sum().backward()  # uses the working memory
    for a, b in zip(first, torch.autograd.grad(y, list(op.parameters())), strict=True):
        assert torch.equal(a, b)
    for name in "KLM":
        op.unfreeze()
        op.freeze(name)
        op.zero_grad()
        op(x).sum().backward()
        assert all((p.grad is None) == n.startswith(name) for n, p in op.architecture())


@pytest.mark.parametrize("form", ["taps-grouped", "past"])
def test_causal_forms_compile_autocast_and_train_after_inference_mode(form: str):
    op = XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=2), 30, causal=True, plan=form)
    x = torch.randn(2, 2, 30)
    with torch.inference_mode():
        op(x)
    expected = op(x)
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in op.parameters()]
    op.zero_grad()
    torch._dynamo.reset()
    given = torch.compile(op, backend="aot_eager", fullgraph=True)(x)
    given.square().sum().backward()
    torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-5)
    for p, g in zip(op.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = op(x)
    assert y.dtype == torch.bfloat16
    assert (y - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"depth": 3},
        {"b": "trained", "C": "trained"},
        {"plan": "taps-grouped"},
        {"plan": "taps-grouped", "depth": (1, 3, 1)},
        {"plan": "past"},
        {"plan": "past", "depth": 3},
    ],
)
@pytest.mark.trains
def test_nothing_leaks_from_the_future_even_after_training(options: dict):
    m = 20
    _, op = causal(3, 1 if options.get("plan") else 2, m, **options)
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
    monkeypatch.setattr(plain_taps, "CAUSAL_BLOCK", 8)
    _, op = causal(3, 1, 50, plan="taps")
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
