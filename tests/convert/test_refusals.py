"""Models on which surgery would go wrong without a word: refused before anything changes, or left alone with the reason."""

import contextlib
import copy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import xdops
from xdops import XDConfig, XDError, XDOperation, arch_parameters, convert_, revert_, weight_parameters
from xdops.spaces import darts_


@pytest.fixture
def process_group(tmp_path: Path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def small() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv1d(3, 2, 3)), torch.randn(2, 2, 8)


def refused(model: nn.Module, x: object, reason: str, config: XDConfig = XDConfig()) -> None:  # noqa: B008
    before = list(model.modules())
    for convert in (convert_, darts_):
        with pytest.raises(XDError, match=reason):
            convert(model, x, config)
        assert all(a is b for a, b in zip(before, model.modules(), strict=True))


@pytest.mark.usefixtures("process_group")
def test_a_model_inside_of_ddp_is_refused_from_outside_and_from_inside():
    model, x = small()
    wrapped = DistributedDataParallel(model)
    refused(wrapped, x, "DistributedDataParallel already")
    refused(nn.Sequential(wrapped), x, "DistributedDataParallel already")
    refused(wrapped.module, x, "DistributedDataParallel already")
    other, x = small()
    assert convert_(other, x).converted  # wrapping one model says nothing about another


@pytest.mark.usefixtures("process_group")
def test_a_sharded_model_is_refused():
    model, x = small()
    refused(fully_shard(model), x, "FSDPModule already")


def test_a_compiled_model_is_refused():
    model, x = small()
    refused(torch.compile(model, backend="eager"), x, "wrapped in OptimizedModule already")
    model.compile(backend="eager")
    refused(model, x, "compiled already")


def test_a_compiled_caller_sees_the_conversion_and_the_way_back():
    model, x = small()
    call = torch.compile(lambda x: model(x), backend="eager")
    expected = call(x)
    convert_(model, x)
    with torch.no_grad():
        for p in arch_parameters(model):
            p *= 1.1
        moved = model(x)
        assert not torch.allclose(moved, expected, atol=1e-2)
        torch.testing.assert_close(call(x), moved)
        revert_(model)
        torch.testing.assert_close(call(x), expected)


def test_inference_mode_is_refused():
    model, x = small()
    with torch.inference_mode():
        refused(model, x, "inference_mode")
        born_there, _ = small()
    refused(born_there, x, "inference_mode")


def test_a_model_without_values_is_refused():
    model, x = small()
    refused(model.to("meta"), x.to("meta"), "meta device")


@pytest.mark.parametrize("shift_invariant", [False, True])
def test_a_converted_model_without_values_says_so_when_it_is_called(shift_invariant):
    model, x = small()
    convert_(model, x, XDConfig(shift_invariant=shift_invariant, pools=False))
    with pytest.raises(XDError, match="an input on meta; expected cpu, where the operation is"):
        model(x.to("meta"))
    with pytest.raises(XDError, match=r"an input on cpu; expected meta, where the operation is, without values.*to_empty"):
        model.to("meta")(x)
    assert model(x.to("meta")).is_meta


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("convert", [convert_, darts_])
def test_weights_that_are_no_numbers_are_refused(convert, value):
    model, x = small()
    with torch.no_grad():
        model[0].weight[0, 0, 0] = value
    expected = copy.deepcopy(model.state_dict())
    with pytest.raises(XDError, match=r"0\.weight with 1 of .* values NaN or infinite"):
        convert(model, x)
    assert all(torch.equal(v.isnan(), expected[k].isnan()) for k, v in model.state_dict().items())


def test_an_uninitialised_layer_is_refused_as_such_and_can_be_initialised():
    _, x = small()
    model = nn.Sequential(nn.LazyConv1d(3, 3), nn.ReLU())
    refused(model, x, "0, a LazyConv1d 3 without initialised parameters")
    model(x)
    assert convert_(model, x).converted


def test_the_pages_of_another_librarys_error_are_one_line():
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("one line\n" + "and another\n" * 100)

    model, x = small()
    with pytest.raises(XDError, match=r"model fails \(RuntimeError: one line\); expected"):
        convert_(nn.Sequential(model, Fails()), x)


def test_outputs_without_a_number_are_not_said_to_agree():
    model, x = small()
    report = convert_(nn.Sequential(model, Nowhere()), x)
    assert report.model_error is None


class Nowhere(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float("nan")


@pytest.mark.parametrize("config", [None, {"depth": 3}, 3])
@pytest.mark.parametrize("convert", [convert_, darts_])
def test_a_config_that_is_none_is_refused(convert, config):
    model, x = small()
    with pytest.raises(XDError, match=f"a config that is a {type(config).__name__}; expected an XDConfig"):
        convert(model, x, config)


def test_an_example_without_examples_is_refused():
    model, x = small()
    refused(model, x[:0], r"shape \(0, 2, 8\)")
    refused(model, {"input": x[:0]}, r"shape \(0, 2, 8\)")


@pytest.mark.parametrize("compiled", [torch.jit.script, lambda layer: torch.jit.freeze(torch.jit.script(layer.eval()))])
def test_torchscript_modules_are_left_alone_with_the_reason(compiled):
    model, x = small()
    model[2] = compiled(model[2])
    expected = model(x)
    report = convert_(model, x)
    assert [row.name for row in report.converted] == ["0"]
    assert [(row.name, row.was) for row in report.left_alone] == [("2", "TorchScript Conv1d")]
    assert "torch.jit.trace" in report.left_alone[0].why
    torch.testing.assert_close(model(x), expected)
    refused(torch.jit.script(small()[0]), x, "TorchScript")


@pytest.mark.parametrize("change", [{"depth": 3}, {"b": "trained"}, {"kernel_size": 5}, {"trained": ("K",)}, {"seed": 1}], ids=str)
def test_a_second_conversion_with_other_settings_is_refused(change):
    model, x = small()
    convert_(model, x)
    operations = [model[0], model[2]]
    with pytest.raises(XDError, match=next(iter(change))):
        convert_(model, x, XDConfig(**change))
    with pytest.raises(XDError, match="XD"):
        darts_(model, x)
    assert [model[0], model[2]] == operations
    convert_(model, x, XDConfig(**change), filter_fn=lambda name, module: False)  # asks for nothing else
    report = convert_(model, x)
    assert all("already" in row.why for row in report.left_alone)


def test_the_relaxed_discrete_space_refuses_other_settings_too():
    model, x = small()
    darts_(model, x, perturb=0.1)
    with pytest.raises(XDError, match=r"perturb=0\.2"):
        darts_(model, x, perturb=0.2)


@pytest.mark.parametrize("kept", [True, False])
def test_a_weight_that_is_a_buffer_stays_a_buffer(kept):
    model, x = small()
    weight = model[0].weight.detach()
    del model[0].weight
    model[0].register_buffer("weight", weight, persistent=kept)
    conv, keys = model[0], list(model.state_dict())
    expected = model(x)
    convert_(model, x)
    assert isinstance(model[0], XDOperation)
    assert model[0].weight is weight
    assert not any(p is weight or p.shape == weight.shape for p in (*weight_parameters(model), *arch_parameters(model)))
    assert ("0.weight" in model.state_dict()) == kept
    torch.testing.assert_close(model(x), expected)
    assert revert_(model).exact
    assert model[0] is conv
    assert list(model.state_dict()) == keys
    assert not isinstance(conv.weight, nn.Parameter)


def test_a_weight_that_is_set_from_outside_is_left_alone():
    model, x = small()
    weight = model[0].weight.detach()
    del model[0].weight
    model[0].weight = weight
    report = convert_(model, x)
    assert [row.name for row in report.converted] == ["2"]
    assert "neither a parameter nor a buffer" in report.left_alone[0].why


POOLS = [
    nn.AvgPool1d(3, 2, 1, count_include_pad=False),
    nn.AvgPool1d(3, 2, ceil_mode=True),
    nn.AvgPool1d(4, 3, 2, ceil_mode=True),
    nn.AvgPool1d(2, 2, 1, ceil_mode=True, count_include_pad=False),
    nn.AvgPool1d(3, 2, 1),
]


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("made_for", [10, 11])
def test_a_pool_is_right_at_other_sizes_or_refuses_them(pool, made_for):
    model = nn.Sequential(pool, nn.Conv1d(2, 2, 1)).double()
    convert_(model, torch.randn(2, 2, made_for).double(), XDConfig(convs=False))
    right = 0
    for m in range(4, made_for + 1):
        x = torch.randn(2, 2, m).double()
        with contextlib.suppress(XDError):
            torch.testing.assert_close(model[0](x), pool(x), rtol=1e-10, atol=1e-10)
            right += 1
    assert right == made_for - 3 if pool.count_include_pad and not pool.ceil_mode else 0 < right < made_for - 3


def test_a_max_pool_used_at_sizes_that_count_differently_is_left_alone():
    class TwoSizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.MaxPool1d(3, 2, ceil_mode=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.pool(x).sum() + self.pool(x[..., :-2]).sum()

    with pytest.warns(UserWarning, match="converted nothing"):
        report = convert_(TwoSizes(), torch.randn(1, 2, 8), XDConfig(max_pools=True))
    assert "at each size" in report.left_alone[0].why


VERBS = {
    "convert_": lambda model: convert_(model, torch.zeros(1, 1, 8)),
    "resize_": lambda model: xdops.resize_(model, torch.zeros(1, 1, 8)),
    "export": lambda model: xdops.export(model, torch.zeros(1, 1, 8), "net.pt2"),
    "save": lambda model: xdops.save(model, "net"),
    "parameter_groups": lambda model: xdops.parameter_groups(model, lr=1, arch_lr=1),
    "arch_parameters": arch_parameters,
    "weight_parameters": weight_parameters,
    "novelty": xdops.novelty,
    "revert_": revert_,
    "merge_": xdops.merge_,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("model", "told"), [(None, "a NoneType"), ("net", "a str"), (nn.Conv1d, "the class Conv1d")])
def test_what_is_no_model_is_refused_by_every_verb(verb: str, model: object, told: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(XDError, match=f"{told} as the model"):
        VERBS[verb](model)
    assert not list(tmp_path.iterdir())


SLIPS = {
    "an example of NaN": lambda: convert_(small()[0], torch.full((2, 2, 8), float("nan"))),
    "a text as step size": lambda: xdops.parameter_groups(small()[0], lr="0.1", arch_lr=1),
    "a truth value as step size": lambda: xdops.parameter_groups(small()[0], lr=True, arch_lr=1),
    "far too deep": lambda: convert_(*small(), XDConfig(depth=(10**6, 1, 1))),
    "a fraction deep": lambda: convert_(*small(), XDConfig(depth=(1.5, 1, 1))),
    "a fraction of a point": lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3), 8.0),
    "more points than memory": lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3), 10**12),
    "no points": lambda: xdops.named.average_pool(1, 2, None),
    "no operation": lambda: xdops.nearest_named(None),
    "no neighbours": lambda: xdops.nearest_named(XDOperation.from_conv(nn.Conv1d(1, 1, 3), 8), 0),
    "no build": lambda: (xdops.save(small()[0], "net"), xdops.load("net", None)),
    "a folder to save to": lambda: xdops.save(small()[0], "."),
    "nothing to save to": lambda: xdops.save(small()[0], ""),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_are_refused_in_our_own_words(slip: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(XDError, match="expected"):
        SLIPS[slip]()
