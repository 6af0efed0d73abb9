"""Shift-invariant operations: against their definition, as convolutions, and what they may never see."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from xdops.engine.operator import evaluate_as_operator
from xdops.engine.shift_plan import SHIFT_FORMS
from xdops.engine.tap_rows import tap_rows, tap_rows_by_torch
from xdops.errors import XDError
from xdops.matrices import random_unitary
from xdops.operations import Axis, xd_operation
from xdops.operations.shift_invariant import ShiftInvariantOperation
from xdops.operations.shift_start import shift_invariant_from_conv

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def make_conv(dims: int = 1, c_in: int = 4, c_out: int = 6, kernel: int = 3, **options) -> nn.Module:
    torch.manual_seed(0)
    return CONV[dims](c_in, c_out, kernel, **options).double()


def moved(op: ShiftInvariantOperation, size: float = 0.1) -> ShiftInvariantOperation:
    """The architecture away from its start."""
    torch.manual_seed(1)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(size * torch.randn_like(p))
    return op


def definition(op: ShiftInvariantOperation, x: Tensor) -> Tensor:
    """An XD-operation of size H on every window, of whose outputs one is kept: Definition 3.1, nothing shared with `op`'s forms."""
    pad = [p for w in reversed(op.windows) for p in w.pad]
    x = F.pad(x, pad, mode="constant" if op.padding_mode == "zeros" else op.padding_mode)
    for dim, w in enumerate(op.windows, start=2):
        x = x.unfold(dim, w.size, w.stride)  # (batch, c_in, outputs..., H...)
    dims = len(op.windows)
    outputs = x.shape[2 : 2 + dims]
    windows = x.movedim(1, 1 + dims).flatten(0, dims)  # (batch outputs..., c_in, H...)
    matrices = (op.matrix(name) for name in "KLM")
    y = xd_operation(windows, op.weight, *matrices, [Axis(w.size) for w in op.windows], op.b, op.C, groups=op.groups)
    y = y[(..., *(w.row for w in op.windows))]
    y = y.unflatten(0, (-1, *outputs)).movedim(-1, 1)
    return y if op.bias is None else y + op.bias.reshape(-1, *(1 for _ in op.windows))


CASES = {
    "causal": ({"padding": 2}, {"span": 8, "causal": True}, (11,)),
    "dilated": ({"padding": 4, "dilation": 2}, {"span": 9, "causal": True}, (13,)),
    "stride": ({"padding": 1, "stride": 2}, {"span": 6}, (12,)),
    "groups": ({"padding": "same", "groups": 2}, {"span": 7}, (10,)),
    "circular": ({"padding": 1, "padding_mode": "circular", "bias": False}, {"span": 8}, (9,)),
    "no padding": ({}, {"span": 4}, (12,)),
    "b and C": ({"padding": 2}, {"span": 6, "causal": True, "b": "trained", "C": "trained"}, (8,)),
    "deep": ({"padding": 2}, {"span": 8, "causal": True, "depth": 3}, (9,)),
    "plane": ({"dims": 2, "kernel": 2, "padding": 1}, {"span": 4}, (6, 5)),
    "plane b and C": (
        {"dims": 2, "kernel": (3, 2), "padding": 1, "dilation": (1, 2)},
        {"span": 4, "b": "fixed", "C": "trained"},
        (5, 6),
    ),
    "long": ({"padding": 2, "dilation": 2, "c_in": 4, "c_out": 2}, {"span": 140, "causal": True}, (9,)),
    "blocks": ({"padding": 2, "stride": 2}, {"span": 8, "causal": True}, (150,)),
    "volume": ({"dims": 3, "kernel": 2, "padding": 1, "stride": (1, 2, 1)}, {"span": 3}, (4, 5, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_starts_as_exactly_the_convolution_at_every_position(case):
    layer, options, size = CASES[case]
    conv = make_conv(**layer)
    x = torch.randn(2, 4, *size, dtype=torch.float64)
    for form in SHIFT_FORMS:
        if not form.startswith("taps") or (len(size) == 1 and "b" not in options):
            op = shift_invariant_from_conv(conv, plan=form, **options)
            torch.testing.assert_close(op(x), conv(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_every_form_has_the_values_and_gradients_of_the_definition(case):
    layer, options, size = CASES[case]
    op = moved(shift_invariant_from_conv(make_conv(**layer), **options))
    x = torch.randn(2, 4, *size, dtype=torch.float64, requires_grad=True)
    learns = [x, *(p for p in op.parameters() if p.requires_grad)]
    expected = definition(op, x)
    g = torch.randn(expected.shape, dtype=torch.float64)
    slopes = torch.autograd.grad(expected, learns, g)
    for form in ("auto", *SHIFT_FORMS):
        if form.startswith("taps") and (len(size) > 1 or "b" in options):
            continue
        op.plan = form
        y = op(x)
        torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
        for slope, right in zip(torch.autograd.grad(y, learns, g), slopes, strict=True):
            torch.testing.assert_close(slope, right, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("n", "depth"), [(12, (1, 3, 1)), (8, (3, 3, 3)), (6, (2, 1, 2))])
def test_rows_by_kernels_are_those_of_the_matrices_with_their_gradients(n, depth):
    generator = torch.Generator().manual_seed(n)
    K, L, M = (random_unitary(n, d, generator=generator, dtype=torch.float64) for d in depth)
    values = [b.values.requires_grad_() for m in (K, L, M) for b in m.butterflies]
    dense = [m.to_dense() for m in (K, L, M)]
    expected = torch.stack([(dense[0] @ torch.diag(dense[1][:, j]) @ dense[2])[n - 2] for j in range(3)])
    g = torch.randn(3, n, dtype=torch.complex128, generator=generator)
    slopes = torch.autograd.grad(expected, values, g)
    layouts = tuple(tuple((b.radices, b.increasing, False) for b in m.butterflies) for m in (K, L, M))
    for rows in (tap_rows(n - 2, 3, layouts, values), tap_rows_by_torch(n - 2, 3, K, L, M)):
        torch.testing.assert_close(rows, expected, rtol=1e-10, atol=1e-10)
        for slope, right in zip(torch.autograd.grad(rows, values, g), slopes, strict=True):
            torch.testing.assert_close(slope, right, rtol=1e-10, atol=1e-10)


def test_single_precision_agrees_to_rounding():
    conv = make_conv(padding=2).float()
    x = torch.randn(2, 4, 40)
    op = moved(shift_invariant_from_conv(conv, 32, causal=True))
    for form in SHIFT_FORMS:
        op.plan = form
        torch.testing.assert_close(op(x), definition(op, x), rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.integers(1, 4), dilation=st.integers(1, 3), span=st.integers(1, 16), length=st.integers(1, 20), causal=st.booleans()
)
def test_any_causal_convolution_starts_exactly_at_any_length(kernel, dilation, span, length, causal):
    conv = make_conv(c_in=1, c_out=2, kernel=kernel, dilation=dilation, padding=(kernel - 1) * dilation)
    op = shift_invariant_from_conv(conv, span, causal=causal, plan="filter")
    assert op.sizes[0] >= max(span, (kernel - 1) * dilation + 1)
    x = torch.randn(1, 1, length, dtype=torch.float64)
    torch.testing.assert_close(op(x), conv(x), rtol=1e-10, atol=1e-10)


def test_a_causal_one_never_sees_the_future_and_sees_its_whole_window():
    op = moved(shift_invariant_from_conv(make_conv(padding=2), 8, causal=True))
    x = torch.randn(1, 4, 20, dtype=torch.float64, requires_grad=True)
    seen = torch.autograd.grad(op(x)[0, :, 12].sum(), x)[0][0].abs().sum(0) > 0
    assert seen.nonzero().flatten().tolist() == list(range(5, 13))


def test_it_is_the_same_everywhere():
    op = moved(shift_invariant_from_conv(make_conv(padding=2), 8, causal=True))
    x = torch.randn(1, 4, 30, dtype=torch.float64)
    torch.testing.assert_close(op(x)[..., 12:30], op(x[..., 3:])[..., 9:27], rtol=1e-10, atol=1e-10)


def test_merged_it_is_a_plain_convolution():
    for layer, options, size in (CASES["causal"], CASES["stride"], CASES["plane"], CASES["circular"]):
        op = moved(shift_invariant_from_conv(make_conv(**layer), **options))
        x = torch.randn(2, 4, *size, dtype=torch.float64)
        expected = op(x).detach()
        plain = op.merged()
        assert not any(isinstance(module, ShiftInvariantOperation) for module in plain.modules())
        assert not any(p.requires_grad for p in plain.parameters())
        torch.testing.assert_close(plain(x), expected, rtol=1e-10, atol=1e-10)


def test_while_its_architecture_is_fixed_at_the_start_it_runs_as_the_layer():
    op = shift_invariant_from_conv(make_conv(padding=2), 8, causal=True)
    x = torch.randn(1, 4, 9, dtype=torch.float64)
    assert op.plan_for(x).form != "source"
    with torch.no_grad():
        assert op.plan_for(x).form == "source"
        moved(op)
        assert op.plan_for(x).form != "source"


def test_the_plan_takes_the_fft_for_long_filters_and_can_be_overruled():
    short = shift_invariant_from_conv(nn.Conv1d(8, 8, 2, padding=1), 16)
    long = shift_invariant_from_conv(nn.Conv1d(8, 8, 2, padding=1), 2048)
    x = torch.zeros(1, 8, 4096)
    assert short.plan_for(x).form == "taps"
    assert long.plan_for(x).form == "taps-fft"
    assert "fft" not in shift_invariant_from_conv(nn.Conv2d(4, 4, 3), 4).plan_for(torch.zeros(1, 4, 9, 9)).form
    assert "FFT" in str(long.plan_for(x))
    with pytest.raises(XDError, match="plan 'taps'"):
        shift_invariant_from_conv(nn.Conv2d(4, 4, 3), 4, plan="taps")(torch.zeros(1, 4, 9, 9))


def test_its_architecture_is_named_and_learns_as_asked():
    op = shift_invariant_from_conv(make_conv(padding=2, dilation=2), 8, b="fixed", C="trained", trained=("L", "b", "C"))
    assert op.depth == (1, 3, 1)
    assert {name.split(".")[0] for name, p in op.architecture() if p.requires_grad} == {"L", "C"}
    assert dict(op.architecture()).keys() <= dict(op.named_parameters()).keys()
    assert {id(p) for p in op.arch_parameters()} == {id(p) for p in op.parameters() if p.requires_grad} - {
        id(p) for p in op.weight_parameters()
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shift_invariant_from_conv(nn.Linear(3, 3), 8), "a Linear"),
        (lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3), 0), "span=0"),
        (lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3, dilation=2), 8, depth=1), "at least"),
        (lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3), 8)(torch.zeros(1, 2, 9)), "an input with 2 channels"),
        (lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3), 8)(torch.zeros(1, 9)), "an input of shape"),
        (lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3), 8)(torch.zeros(1, 1, 2)), "an input of length 2"),
        (
            lambda: shift_invariant_from_conv(nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"), 64)(torch.zeros(1, 1, 9)),
            "circular padding",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(XDError, match=message):
        make()


def test_a_network_can_call_it_and_ask_it_as_it_does_a_convolution():
    conv = make_conv(padding=2)
    op, x = shift_invariant_from_conv(conv, 32, causal=True), torch.randn(2, 4, 40, dtype=conv.weight.dtype)
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode", "transposed")
    for module in (op, moved(op).merged()):
        for name in names:
            if name not in ("kernel_size", "padding") or module is op:
                assert getattr(module, name) == getattr(conv, name), name
    assert torch.equal(op(input=x), op(x))
    assert not moved(op).freeze().arch_parameters()


@pytest.mark.parametrize(
    ("case", "form"), [("blocks", "taps-fft"), ("b and C", "filter-fft"), ("plane", "filter"), ("groups", "taps")]
)
def test_compiled_it_keeps_to_its_plan_for_every_batch_without_compiling_again(case, form):
    layer, options, size = CASES[case]
    op = moved(shift_invariant_from_conv(make_conv(**layer), plan=form, **options))
    torch._dynamo.reset()
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True, dynamic=True)
    compiled(torch.randn(3, 4, *size, dtype=torch.float64))
    learns = [p for p in op.parameters() if p.requires_grad]
    with torch._dynamo.config.patch(error_on_recompile=True), torch.profiler.profile() as profile:
        for batch in (2, 5):
            x = torch.randn(batch, 4, *size, dtype=torch.float64)
            torch.testing.assert_close(compiled(x), op(x), rtol=1e-10, atol=1e-10)
            expected = torch.autograd.grad(op(x).square().sum(), learns)
            for slope, right in zip(torch.autograd.grad(compiled(x).square().sum(), learns), expected, strict=True):
                torch.testing.assert_close(slope, right, rtol=1e-8, atol=1e-10)
    assert ("aten::_fft_r2c" in {event.key for event in profile.key_averages()}) == form.endswith("fft")


def test_compiled_second_derivatives_by_the_operator_are_those_of_the_operation():
    layer, options, size = CASES["b and C"]
    op = moved(shift_invariant_from_conv(make_conv(**layer), **options))
    x = torch.randn(2, 4, *size, dtype=torch.float64, requires_grad=True)

    def penalty(y: Tensor) -> list[Tensor]:
        (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), op.weight_parameters()[:1] + op.arch_parameters()))

    alone = evaluate_as_operator(op.description(), op.operands(), x, x.dtype) + op.bias[:, None]
    for slope, right in zip(penalty(alone), penalty(op(x)), strict=True):
        torch.testing.assert_close(slope, right, rtol=1e-8, atol=1e-10)
