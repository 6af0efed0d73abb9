"""Plans: immutable, printable, chosen by a model and not by the clock; the source form; merging; mixed precision; the compiler."""

import copy
import dataclasses
import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import xdops
from xdops import XDError, XDOperation
from xdops.engine import calibration, kernels
from xdops.engine.calibration import calibrate
from xdops.engine.machine import rates_restored, set_rates
from xdops.engine.plan import Plan
from xdops.engine.planner import make_plan, possible_plans
from xdops.engine.rates import Rates
from xdops.operations.merged import DenseOperator


def conv_and_operation(**options: object) -> tuple[nn.Module, XDOperation, torch.Tensor]:
    conv = nn.Conv2d(3, 4, 3, padding=1)
    return conv, XDOperation.from_conv(conv, (10, 9), **options), torch.randn(2, 3, 10, 9)


@pytest.fixture
def own_rates():
    with rates_restored():
        yield


def test_a_plan_is_immutable_hashable_cached_and_says_what_it_costs_and_why():
    _, op, x = conv_and_operation()
    plan = op.plan_for(x)
    assert op.plan_for(torch.randn_like(x)) is plan
    assert len({plan, make_plan(op.workload(x))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.form = "taps"
    assert plan.flops > 0
    assert plan.bytes > 0
    assert "Mflop" in str(plan)
    assert plan.why in str(plan)


def test_half_a_domain_is_planned_as_half_the_work(own_rates):
    x = torch.randn(4, 8, 240)
    full, half = (XDOperation.from_conv(nn.Conv1d(8, 8, 9, padding=4), 240, size=288, domain=d) for d in ("full", "half"))
    for form in ("spectral", "grouped", "grouped3"):
        of_full, of_half = (make_plan(op.workload(x), form) for op in (full, half))
        assert of_half.flops == pytest.approx(of_full.flops / 2, rel=0.1)
        assert of_half.bytes == of_full.bytes / 2
        assert form == "grouped3" or of_half.seconds < of_full.seconds  # which groups differently, in more calls


def test_auto_takes_the_form_that_the_model_finds_cheapest(own_rates):
    _, op, x = conv_and_operation()
    asked = op.workload(x)
    plans = [make_plan(asked, name) for name in possible_plans(asked)]
    assert make_plan(asked).seconds == min(p.seconds for p in plans)
    conv = nn.Conv1d(8, 8, 17, padding=8, padding_mode="circular")
    long = XDOperation.from_conv(conv, 4096)
    signal = torch.randn(4, 8, 4096)
    assert long.plan_for(signal).form == ("fused" if kernels.installed() else "grouped")
    without = {name: make_plan(long.workload(signal), name).seconds for name in possible_plans(long.workload(signal))}
    without.pop("fused", None)
    assert min(without, key=without.__getitem__) == "grouped"
    middling = XDOperation.from_conv(nn.Conv2d(16, 16, 3, padding=1), (16, 16))
    assert middling.plan_for(torch.randn(64, 16, 16, 16)).form == ("fused" if kernels.installed() else "spectral")
    short = XDOperation.from_conv(nn.Conv2d(16, 16, 3, padding=1), (8, 8))
    assert short.plan_for(torch.randn(64, 16, 8, 8)).form == ("fused" if kernels.installed() else "joined")


def test_a_plan_can_be_named_or_given_and_a_wrong_name_lists_the_right_ones():
    conv, op, x = conv_and_operation(plan="taps")
    assert op.plan_for(x).form == "taps"
    op.plan = make_plan(op.workload(x), "spectral")
    torch.testing.assert_close(op(x), conv(x), rtol=1e-5, atol=1e-5)
    op.plan = "spectrul"
    with pytest.raises(XDError, match="spectral"):
        op(x)
    with pytest.raises(XDError, match="source"):
        make_plan(op.workload(x), "source")


def test_rates_follow_from_the_times_of_products_copies_calls_and_kernels(monkeypatch):
    readings = itertools.count()
    monkeypatch.setattr(calibration, "time", SimpleNamespace(thread_time=lambda: next(readings) / 1024))  # all takes as long
    threads = torch.get_num_threads()
    measured = calibrate(seconds=0)
    assert torch.get_num_threads() == threads
    assert measured.gemm == threads * 2 * 512**3 * 1024
    assert measured.memory == threads * 2 * 4 * (1 << 23) * 1024
    assert measured.call == 4 / 1024
    assert measured.half == 64  # small blocks then have a small rate
    if kernels.installed():
        assert measured.kernel == threads * 4 * 8 * calibration.CACHED * 2 * 8 * 1024  # a butterfly of 256 points has 8 factors
        assert measured.kernel_memory == measured.memory  # more numbers in as much time: as fast as they are copied


def test_plans_cost_more_on_slower_machines(own_rates):
    slow = make_plan_with(Rates(gemm=1e9))
    fast = make_plan_with(Rates(gemm=1e13))
    assert slow.seconds > fast.seconds


def make_plan_with(slower: Rates) -> Plan:
    set_rates(slower)
    _, op, x = conv_and_operation()
    return op.plan_for(x)


def test_a_frozen_untouched_operation_is_its_convolution_to_the_bit():
    conv, op, x = conv_and_operation()
    assert op.plan_for(x).form != "source"  # K, L and M want gradients
    op.freeze()
    assert op.plan_for(x).form == "source"
    assert torch.equal(op(x), conv(x))


def test_an_untouched_operation_stays_its_convolution_in_other_precisions():
    conv, op, x = conv_and_operation()
    op.freeze()
    for dtype in (torch.float64, torch.bfloat16):
        twin, other = copy.deepcopy(conv).to(dtype), copy.deepcopy(op).to(dtype)
        assert torch.equal(other(x.to(dtype)), twin(x.to(dtype)))
    assert not other.float().untouched  # digits are lost


@pytest.mark.parametrize("change", ["in place", "through .data", "through numpy", "other strides", "loaded", "by an optimizer"])
def test_a_touched_architecture_is_never_evaluated_as_its_source(change: str):
    conv, op, x = conv_and_operation()
    op.freeze()
    op(x)  # the answer may be cached from here on
    p = op.K[0].values[0]
    if change == "in place":
        with torch.no_grad():
            p.mul_(1.5)
    elif change == "through .data":
        p.data.mul_(1.5)
    elif change == "through numpy":
        p.detach().numpy()[:] *= 1.5
    elif change == "other strides":
        p.data = (1.5 * p.data.mT.contiguous()).mT
    elif change == "loaded":
        op.load_state_dict({k: v * 1.5 if k.startswith("K.0") else v for k, v in op.state_dict().items()})
    else:
        op.unfreeze("K")
        optimizer = torch.optim.SGD(op.arch_parameters(), lr=0.1)
        op(x).square().sum().backward()
        optimizer.step()
        op.freeze()
    assert not op.untouched
    assert op.plan_for(x).form != "source"
    assert (op(x) - conv(x)).abs().max() > 1e-3


def test_loading_the_start_back_counts_as_untouched():
    conv, op, x = conv_and_operation()
    start = copy.deepcopy(op.state_dict())
    op.freeze()
    with torch.no_grad():
        op.K[0].values[0].mul_(2)
    op.load_state_dict(start)
    assert op.untouched
    assert torch.equal(op(x), conv(x))
    assert copy.deepcopy(op).untouched


def test_filters_over_the_grid_are_not_made_for_small_batches_of_many_channels(monkeypatch):
    monkeypatch.setattr(kernels, "installed", lambda: False)
    op = XDOperation.from_conv(nn.Conv2d(16, 16, 3, padding=1), (32, 32), plan="spectral")
    assert op.plan_for(torch.randn(1, 16, 32, 32)).by_tap
    assert not op.plan_for(torch.randn(64, 16, 32, 32)).by_tap
    with_b = XDOperation.from_conv(nn.Conv2d(16, 16, 3, padding=1), (32, 32), plan="spectral", b="trained")
    assert not with_b.plan_for(torch.randn(1, 16, 32, 32)).by_tap


@pytest.mark.parametrize("form", ["spectral", "grouped", "taps"])
@pytest.mark.parametrize(("bias", "domain"), [(True, "full"), (False, "full"), (True, "half")])
def test_a_merged_operation_computes_the_same_for_every_input_shape(form: str, bias: bool, domain: str):
    op = XDOperation.from_conv(nn.Conv1d(3, 4, 3, padding=1, bias=bias), 24, plan=form, domain=domain)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.1 * torch.randn_like(p))
        inputs = [torch.randn(2, 3, 24), torch.randn(5, 3, 24), torch.randn(2, 3, 20)]
        expected = [op(x) for x in inputs]
    merged = op.merged()
    for x, y in zip(inputs, expected, strict=True):
        torch.testing.assert_close(merged(x), y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["joined", "spectral"])
def test_a_merged_operation_of_several_dimensions_computes_the_same_however_channels_mix(form: str):
    op = XDOperation.from_conv(nn.Conv2d(16, 16, 3, padding=1), (16, 12), plan=form)
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.01 * torch.randn_like(p))
        x = torch.randn(1, 16, 15, 11)
        assert op.plan_for(x).by_tap == (form == "spectral")
        expected = op(x)
    torch.testing.assert_close(op.merged()(x), expected, rtol=1e-5, atol=1e-5)


def test_a_small_operation_of_one_size_becomes_one_matrix_which_refuses_other_sizes():
    op = XDOperation.from_conv(nn.Conv1d(8, 8, 4), 4, b="trained", C="trained")
    with torch.no_grad():
        for _, p in op.architecture():
            p.add_(0.1 * torch.randn_like(p))
    merged = op.merged(4)
    assert isinstance(merged, DenseOperator)
    x = torch.randn(3, 8, 4)
    torch.testing.assert_close(merged(x), op(x).detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(XDError, match="8, 4"):
        merged(torch.randn(3, 8, 5))


def converted() -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2), nn.Flatten(), nn.Linear(36, 3))
    x = torch.randn(4, 3, 8, 8)
    xdops.convert_(model, x)
    return model, x


@pytest.mark.trains
def test_autocast_to_bfloat16_runs_matches_and_trains():
    model, x = converted()
    expected = model(x)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    target = torch.randint(0, 3, (4,))
    losses = []
    for _ in range(10):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
            assert model[0](x).dtype == torch.bfloat16
            loss = nn.functional.cross_entropy(y.float(), target)
        if not losses:
            assert (y - expected).abs().max() < 0.05 * expected.abs().max()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_a_model_in_bfloat16_runs_and_stays_close():
    model, x = converted()
    expected = model(x)
    given = model.to(torch.bfloat16)(x.to(torch.bfloat16))
    assert given.dtype == torch.bfloat16
    assert (given - expected).abs().max() < 0.1 * expected.abs().max()


def test_torch_compile_takes_the_whole_graph_and_computes_the_same():
    model, x = converted()
    expected = model(x)
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    given = compiled(x)
    given.square().sum().backward()
    torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-5)
    for p, g in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-5)


def test_an_input_of_another_dtype_is_refused_with_the_right_one():
    _, op, x = conv_and_operation()
    with pytest.raises(XDError, match="float32"):
        op(x.double())
