"""Every form computes the same function and the same gradients as the staged definition, whatever the architecture has become."""

import dataclasses
import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from xdops import XDOperation
from xdops.engine import chains, kernels, mixing, spectrum, tapmixing
from xdops.engine.forms import FORMS
from xdops.engine.plan import Plan
from xdops.engine.planner import make_plan, possible_plans
from xdops.engine.workspace import workspace
from xdops.operations import release_scratch
from xdops.operations.catalogue.fourier import SpectralConv, from_spectral_conv

ALL = [name for name in FORMS if name != "source"]

CASES = {
    "1d": lambda: (nn.Conv1d(2, 3, 3, padding=1), (12,)),
    "1d circular": lambda: (nn.Conv1d(2, 3, 5, padding=2, padding_mode="circular", bias=False), (30,)),
    "1d reflect, stride": lambda: (nn.Conv1d(2, 3, 4, padding=2, stride=3, padding_mode="reflect"), (17,)),
    "1d dilated": lambda: (nn.Conv1d(2, 2, 3, padding=2, dilation=2), (16,)),
    "1d groups": lambda: (nn.Conv1d(4, 6, 3, groups=2, padding=1), (16,)),
    "1d depthwise": lambda: (nn.Conv1d(4, 4, 3, groups=4, padding=1), (15,)),
    "1d transposed": lambda: (nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), (7,)),
    "2d": lambda: (nn.Conv2d(2, 3, 3, padding=1), (8, 6)),
    "2d stride, groups": lambda: (nn.Conv2d(4, 4, (2, 3), stride=(2, 1), groups=2, padding=(1, 0)), (7, 9)),
    "2d circular": lambda: (nn.Conv2d(2, 2, (3, 2), padding=1, padding_mode="circular"), (12, 10)),
    "2d transposed": lambda: (nn.ConvTranspose2d(2, 2, 2, stride=2), (4, 3)),
    "3d": lambda: (nn.Conv3d(2, 2, 2, padding=(0, 1, 0)), (5, 4, 3)),
    "3d groups": lambda: (nn.Conv3d(2, 2, (1, 2, 3), groups=2), (4, 4, 5)),
}


def moved(conv: nn.Module, size: tuple[int, ...], **options: object) -> XDOperation:
    """An operation in double precision whose architecture has left the convolution far behind."""
    op = XDOperation.from_conv(conv.double(), size, **options)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.3 * torch.randn_like(p))
    return op


def values_and_gradients(op: XDOperation, x: torch.Tensor, form: str | Plan) -> list[torch.Tensor]:
    """The output and the gradients of x, the weights and every architecture parameter that wants one."""
    x = x.detach().requires_grad_()
    op.zero_grad()
    if form == "staged":
        y = op.evaluate(x, "staged")
    else:
        op.plan = form
        y = op(x)
    (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in op.parameters() if p.requires_grad)]


def assert_same(given: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for g, e in zip(given, expected, strict=True):
        assert g.shape == e.shape
        assert (g - e).abs().max() <= 1e-10 * (1 + e.abs().max())


OPTIONS = {
    "plain": {},
    "deep": {"depth": (2, 3, 3)},
    "b and C": {"b": "trained", "C": "trained"},
    "half": {"domain": "half"},
    "half, deep, b and C": {"domain": "half", "depth": (2, 3, 3), "b": "trained", "C": "trained"},
}


@pytest.mark.parametrize("extra", OPTIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_form_agrees_with_the_staged_definition_in_values_and_gradients(case: str, extra: str):
    conv, size = CASES[case]()
    op = moved(conv, size, **OPTIONS[extra])
    x = torch.randn(3, op.in_channels, *size, dtype=torch.float64)
    expected = values_and_gradients(op, x, "staged")
    forms = [form for form in possible_plans(op.workload(x)) if form in ALL]
    assert "spectral" in forms
    assert ("grouped" in forms) == ("transposed" not in case and min(len(m.radices) for m in op.matrix("M").matrices) > 1)
    for form in forms:
        assert_same(values_and_gradients(op, x, form), expected)


@pytest.mark.parametrize("domain", ["full", "half"])
@pytest.mark.parametrize(("size", "digits"), [((24,), 2), ((24,), 3), ((60,), 3), ((12, 18), 2), ((8, 18), 3)])
def test_grouped_matrices_agree_at_every_number_of_groups(size: tuple[int, ...], digits: int, domain: str):
    conv = {1: nn.Conv1d, 2: nn.Conv2d}[len(size)](2, 2, 3, padding=1, padding_mode="circular")
    for depth in (1, 2, 3):
        op = moved(conv, size, depth=depth, domain=domain)
        x = torch.randn(2, 2, *size, dtype=torch.float64)
        form = {2: "grouped", 3: "grouped3"}[digits]
        assert_same(values_and_gradients(op, x, form), values_and_gradients(op, x, "staged"))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("case", ["1d", "2d"])
@pytest.mark.parametrize("form", ["spectral", "grouped"])
def test_working_in_chunks_of_points_and_parts_of_the_batch_changes_nothing(monkeypatch, case: str, form: str, groups: int):
    make, size = {"1d": (nn.Conv1d, (24,)), "2d": (nn.Conv2d, (12, 8))}[case]
    op = moved(make(4, 4, 3, padding=1, padding_mode="circular", groups=groups), size, b="trained", C="trained")
    x = torch.randn(5, 4, *size, dtype=torch.float64)
    expected = values_and_gradients(op, x, "staged")
    for whole, chunk, part, keep in itertools.product((0, 1 << 22), (1, 200), (1, 400, 1 << 20), (0, 1 << 24)):
        monkeypatch.setattr(mixing, "WHOLE", whole)
        monkeypatch.setattr(mixing, "CHUNK", chunk)
        monkeypatch.setattr(spectrum, "PART", part)
        monkeypatch.setattr(spectrum, "KEEP", keep)
        assert_same(values_and_gradients(op, x, form), expected)


@pytest.mark.parametrize("frozen", ["", "L", "KLM"])
@pytest.mark.parametrize("form", ["spectral", "grouped"])
def test_mixing_channels_tap_by_tap_changes_nothing(monkeypatch, form: str, frozen: str):
    monkeypatch.setattr(kernels, "installed", lambda: False)
    op = moved(nn.Conv2d(2, 3, (3, 2), padding=1, padding_mode="circular"), (12, 8), depth=(1, 2, 1))
    op.freeze(*frozen)
    x = torch.randn(3, 2, 12, 8, dtype=torch.float64)
    plan = dataclasses.replace(make_plan(op.workload(x), form), by_tap=True)
    for chunk, keep in itertools.product((1, 1000, 1 << 20), (0, 1 << 24)):
        monkeypatch.setattr(tapmixing, "CHUNK", chunk)
        monkeypatch.setattr(spectrum, "KEEP", keep)
        given, expected = (values_and_gradients(op, x, way) for way in (plan, "staged"))
        assert_same(given, expected)


@pytest.mark.skipif(not kernels.installed(), reason="numba is not installed")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    ("channels", "frozen", "trained"),
    [((2, 3), "", ""), ((8, 16), "L", ""), ((9, 1), "KLM", ""), ((2, 3), "", "bC"), ((8, 5), "", "b"), ((9, 16), "KLM", "C")],
)
def test_kernels_that_mix_channels_point_by_point_change_nothing(
    monkeypatch, channels, frozen: str, trained: str, dtype: torch.dtype, tolerance: float
):
    conv = nn.Conv2d(*channels, (3, 2), padding=1, padding_mode="circular")
    op = moved(conv, (12, 8), depth=(1, 2, 1), domain="half", **dict.fromkeys(trained, "trained"))
    op.freeze(*frozen)
    x = torch.randn(11, channels[0], 12, 8, dtype=torch.float64)
    expected = values_and_gradients(op, x, "staged")
    for form, part, keep in (("spectral", 1 << 20, 1 << 24), ("fused", 1 << 20, 0), ("spectral", 1, 1 << 24), ("spectral", 1, 0)):
        monkeypatch.setattr(spectrum, "PART", part)  # the least: parts of eight examples
        monkeypatch.setattr(spectrum, "KEEP", keep)
        plan = dataclasses.replace(make_plan(op.workload(x), form), by_tap=True)
        given = values_and_gradients(op.copy().to(dtype), x.to(dtype), plan)
        for g, e in zip(given, expected, strict=True):
            assert (g - e).abs().max() <= tolerance * (1 + e.abs().max())


@pytest.mark.parametrize(("domain", "kept"), [("half", True), ("full", False)])
def test_of_large_maps_half_a_domain_is_kept_for_the_backward_pass_and_a_full_one_is_not(monkeypatch, domain: str, kept: bool):
    monkeypatch.setattr(spectrum, "KEEP_EACH", 1000)
    op = moved(nn.Conv2d(4, 4, 3, padding=1), (30, 30), domain=domain, plan="spectral")
    x = torch.randn(2, 4, 30, 30, dtype=torch.float64)
    largest = 0

    def weigh(t: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(weigh, lambda t: t):
        op(x)
    assert (largest > x.numel()) == kept


@pytest.mark.parametrize(("channels", "groups"), [((5, 2), 1), ((6, 4), 2), ((2, 5), 1)])
def test_a_single_tap_gives_the_same_before_and_after_mixing_channels(channels, groups: int):
    op = moved(nn.Conv2d(*channels, 1, groups=groups), (6, 4), depth=(1, 2, 1))
    x = torch.randn(3, channels[0], 6, 4, dtype=torch.float64)
    assert_same(values_and_gradients(op, x, "taps"), values_and_gradients(op, x, "staged"))


def test_inputs_smaller_than_the_operation_agree_in_every_form():
    op = moved(nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (24,))
    for m in (22, 13, 5):
        x = torch.randn(2, 2, m, dtype=torch.float64)
        for form in ("spectral", "grouped", "grouped3", "taps"):
            assert_same(values_and_gradients(op, x, form), values_and_gradients(op, x, "staged"))


@pytest.mark.parametrize("form", ["spectral", "grouped", "taps"])
def test_second_derivatives_are_right_in_every_form(form: str):
    op = moved(nn.Conv1d(2, 2, 2), (6,), plan=form)
    x = torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    parameters = [x, *op.parameters()]

    def gradients(evaluate):
        first = torch.autograd.grad(evaluate(x).pow(3).sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), parameters)

    assert_same(list(gradients(op)), list(gradients(lambda x: op.evaluate(x, "staged"))))


def test_a_second_backward_through_the_same_graph_gives_the_same_gradients():
    op = moved(nn.Conv2d(2, 2, 3, padding=1), (8, 8))
    x = torch.randn(2, 2, 8, 8, dtype=torch.float64)
    y = op(x).square().sum()
    first = torch.autograd.grad(y, list(op.parameters()), retain_graph=True)
    op(torch.randn_like(x))  # overwrites the working memory
    second = torch.autograd.grad(y, list(op.parameters()))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_only_wanted_gradients_are_computed():
    op = moved(nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (16,))
    for frozen in itertools.chain.from_iterable(itertools.combinations("KLM", n) for n in (1, 2, 3)):
        op.unfreeze()
        op.freeze(*frozen)
        for form in ("spectral", "grouped", "taps"):
            op.plan = form
            op.zero_grad()
            op(torch.randn(2, 2, 16, dtype=torch.float64)).sum().backward()
            for name, p in op.architecture():
                assert (p.grad is None) == (name[0] in frozen)


def with_complex_filters(size: tuple[int, ...], modes: tuple[int, ...], depth: int) -> XDOperation:
    """Complex filters at scattered columns of L, of an architecture that has moved far from its start."""
    op = from_spectral_conv(SpectralConv(2, 3, modes, dtype=torch.float64), size, depth, b="trained", C="trained")
    op.source = None
    with torch.no_grad():
        for p in op.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return op


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("size", "modes"), [((24,), (5,)), ((23,), (5,)), ((8, 12), (3, 2)), ((4, 3, 6), (2, 1, 3))])
def test_complex_filters_agree_with_the_staged_definition_in_every_form(size: tuple[int, ...], modes: tuple[int, ...], depth: int):
    op = with_complex_filters(size, modes, depth)
    x = torch.randn(3, 2, *size, dtype=torch.float64)
    expected = values_and_gradients(op, x, "staged")
    forms = [form for form in possible_plans(op.workload(x)) if form in ALL]
    assert "spectral" in forms
    assert "taps" not in forms
    for form in forms:
        assert_same(values_and_gradients(op, x, form), expected)
    op.plan = "auto"
    assert op.plan_for(x).form in forms
    assert_same([op.merged()(x)], expected[:1])


@pytest.mark.parametrize(("size", "modes"), [((12,), (3,)), ((6, 4), (2, 2))])
def test_complex_filters_may_be_chunked_and_have_second_derivatives(monkeypatch, size: tuple[int, ...], modes: tuple[int, ...]):
    op = with_complex_filters(size, modes, 1)
    x = torch.randn(3, 2, *size, dtype=torch.float64, requires_grad=True)
    expected = values_and_gradients(op, x, "staged")
    parameters = [x, *op.parameters()]

    def gradients(evaluate):
        first = torch.autograd.grad(evaluate(x).pow(3).sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), parameters)

    op.plan = "spectral"
    assert_same(list(gradients(op)), list(gradients(lambda x: op.evaluate(x, "staged"))))
    monkeypatch.setattr(mixing, "WHOLE", 0)
    monkeypatch.setattr(mixing, "CHUNK", 1)
    monkeypatch.setattr(spectrum, "KEEP", 0)
    assert_same(values_and_gradients(op, x, "spectral"), expected)


def test_chains_rotate_digits_through_memory_without_changing_the_matrix():
    layout = chains.ChainLayout((3, 2, 2), (3, 2, 2), (0, 1, 2, 1, 0), (1, 12), 12)
    stages = [torch.randn(2, *[d for i, d in enumerate((3, 2, 2)) if i != digit], r, r).double()
              for digit in layout.sequence for r in [(3, 2, 2)[digit]]]  # fmt: skip
    dense = torch.complex(*chains.dense_chain(layout, stages).unbind())
    chain = chains.Chain(layout, stages, workspace())
    x = torch.randn(5, 12, dtype=torch.float64)
    given = chain.enter(x)
    expected = dense @ x.t().to(dense.dtype)
    torch.testing.assert_close(torch.complex(given[0], given[1]), expected)


def test_working_memory_can_be_given_back_at_any_time():
    op = moved(nn.Conv1d(2, 2, 3, padding=1), (16,))
    x = torch.randn(200, 2, 16, dtype=torch.float64)
    expected = values_and_gradients(op, x, "spectral")
    assert workspace().buffers
    release_scratch()
    assert not workspace().buffers
    assert_same(values_and_gradients(op, x, "spectral"), expected)


@pytest.mark.parametrize("size", [(12,), (6, 8)])
def test_an_operation_trains_after_it_has_run_in_inference_mode(size: tuple[int, ...]) -> None:
    release_scratch()
    conv = {1: nn.Conv1d, 2: nn.Conv2d}[len(size)](3, 3, 3, padding=1)
    op = XDOperation.from_conv(conv, size)
    with torch.no_grad():
        for parameter in op.arch_parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    x = torch.randn(2, 3, *size)
    with torch.inference_mode():
        expected = op(x).clone()
    y = op(x)
    torch.testing.assert_close(y, expected.clone())
    y.square().sum().backward()
    assert all(p.grad is not None for p in op.arch_parameters())


@pytest.mark.parametrize("form", ["spectral", "grouped", "taps", "fused"])
def test_second_derivatives_of_a_layer_that_is_used_twice_are_right(form: str):
    if form == "fused" and not kernels.installed():
        pytest.skip("numba is not installed")
    op = moved(nn.Conv1d(2, 2, 3, padding=1), (12,), plan=form)
    x, parameters = torch.randn(2, 2, 12, dtype=torch.float64), list(op.parameters())

    def gradients(layer: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, ...]:
        first = torch.autograd.grad(layer(layer(x).tanh()).square().sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), parameters)

    for g, e in zip(gradients(op), gradients(lambda x: op.evaluate(x, "staged")), strict=True):
        assert (g - e).abs().max() <= 1e-10 * (1 + e.abs().max())
