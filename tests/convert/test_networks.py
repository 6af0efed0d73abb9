"""Conversion of toy networks in every style: one table drives every behaviour that must hold for all of them."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import xdops
from xdops import XDConfig, XDOperation, arch_parameters, convert_, novelty, revert_, weight_parameters
from xdops.convert.layers import kind_of


class Residual(nn.Module):
    def __init__(self, body: nn.Module, skip: nn.Module) -> None:
        super().__init__()
        self.body, self.skip = body, skip

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class SharedAtTwoSizes(nn.Module):
    """One convolution, registered under two names and used at two sizes."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, **options)
        self.again = self.conv

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.again(y[..., :-1, :-2])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(3, 4, 5, padding=2)

    def forward(self, a: Tensor, *, b: Tensor | None = None, scale: float = 1.0) -> Tensor:
        return self.left(a) + scale * self.right(b)


class Positional(TwoInputs):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(a, b=b)


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(2))
        self.named = nn.ModuleDict({"a": nn.Conv1d(4, 4, 3, padding="same"), "b": nn.AvgPool1d(2)})

        class Block(nn.Sequential):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) + 1

        self.block = Block(nn.Conv1d(4, 4, 1), nn.ReLU(inplace=True), nn.Conv1d(4, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.stack:
            x = torch.relu_(layer(x))
        return self.block(self.named["b"](self.named["a"](x)))


class Unreached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class MyConv(nn.Conv2d):
    pass


def conv1d(**options):
    return nn.Sequential(nn.Conv1d(4, 6, **options), nn.ReLU()), torch.randn(2, 4, 12)


def conv2d(c_in=4, c_out=6, **options):
    return nn.Sequential(nn.Conv2d(c_in, c_out, **options), nn.ReLU()), torch.randn(2, c_in, 9, 10)


def transposed(dims, **options):
    kinds = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
    return nn.Sequential(kinds[dims](4, 2, **options)), torch.randn(2, 4, *(5, 4, 3)[:dims])


def old_weight_norm():
    with pytest.warns(FutureWarning):
        return nn.Sequential(torch.nn.utils.weight_norm(nn.Conv1d(4, 6, 3, padding=2, dilation=2)), nn.ReLU()), torch.randn(
            2, 4, 12
        )


CASES = {
    "plain 1d": lambda: conv1d(kernel_size=3, padding=1),
    "plain 2d without padding": lambda: conv2d(kernel_size=5),
    "plain 3d": lambda: (nn.Sequential(nn.Conv3d(2, 3, 3, padding=1)), torch.randn(2, 2, 4, 5, 6)),
    "groups": lambda: conv2d(kernel_size=3, padding=1, groups=2),
    "depthwise": lambda: conv2d(4, 8, kernel_size=3, padding=1, groups=4),
    "pointwise": lambda: conv2d(kernel_size=1, bias=False),
    "even kernel": lambda: conv2d(kernel_size=(2, 4), padding=(1, 2)),
    "strided": lambda: conv2d(kernel_size=3, stride=(2, 3), padding=1),
    "dilated": lambda: conv1d(kernel_size=3, dilation=2, padding=2),
    "same": lambda: conv2d(kernel_size=(4, 3), padding="same"),
    "circular": lambda: conv2d(kernel_size=3, padding=1, padding_mode="circular"),
    "reflect": lambda: conv2d(kernel_size=3, padding=1, stride=2, padding_mode="reflect"),
    "replicate": lambda: conv1d(kernel_size=5, padding="same", padding_mode="replicate"),
    "transposed 1d": lambda: transposed(1, kernel_size=4, stride=2, padding=1),
    "transposed 2d": lambda: transposed(2, kernel_size=3, stride=2, output_padding=1, groups=2),
    "transposed 3d": lambda: transposed(3, kernel_size=2, stride=2, bias=False),
    "subclass": lambda: (nn.Sequential(MyConv(3, 4, 3)), torch.randn(2, 3, 8, 8)),
    "batch norm, dropout and pools": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.AvgPool2d(2),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.Flatten(), nn.Linear(16, 3),
        ),
        torch.randn(3, 3, 8, 8),
    ),
    "average pools 1d and 3d": lambda: (
        nn.Sequential(nn.AvgPool1d(3, 2, 1), nn.Unflatten(2, (2, 2, 2)), nn.AvgPool3d((1, 2, 2), 1)), torch.randn(2, 3, 16),
    ),
    "residual": lambda: (
        Residual(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)), nn.Identity()), torch.randn(2, 3, 8, 8),
    ),
    "shared at two sizes": lambda: (SharedAtTwoSizes(padding=1), torch.randn(2, 3, 9, 8)),
    "shared at two sizes, circular": lambda: (SharedAtTwoSizes(padding=1, padding_mode="circular"), torch.randn(2, 3, 9, 8)),
    "weight norm": lambda: (
        nn.Sequential(parametrizations.weight_norm(nn.Conv1d(4, 6, 3, padding=2, dilation=2)), nn.ReLU()), torch.randn(2, 4, 12),
    ),
    "weight norm by a hook": old_weight_norm,
    "spectral norm": lambda: (nn.Sequential(parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))), torch.randn(2, 3, 8, 8)),
    "two positional inputs": lambda: (Positional(), (torch.randn(2, 2, 8), torch.randn(2, 3, 8))),
    "keyword inputs": lambda: (TwoInputs(), {"a": torch.randn(2, 2, 8), "b": torch.randn(2, 3, 8), "scale": 0.5}),
    "containers": lambda: (Containers(), torch.randn(2, 4, 10)),
    "unreached layer": lambda: (Unreached(), torch.randn(2, 2, 8)),
    "one point": lambda: (nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 3, padding=1)), torch.randn(2, 3, 1, 1)),
}  # fmt: skip


def network(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, object]:
    torch.manual_seed(0)
    model, example = CASES[name]()

    def cast(value):
        return value.to(dtype) if isinstance(value, Tensor) else value

    if isinstance(example, tuple):
        example = tuple(map(cast, example))
    elif isinstance(example, dict):
        example = {key: cast(value) for key, value in example.items()}
    else:
        example = cast(example)
    return model.to(dtype), example


def run(model: nn.Module, example: object) -> Tensor:
    if isinstance(example, tuple):
        return model(*example)
    return model(**example) if isinstance(example, dict) else model(example)


def train_step(model: nn.Module, example: object) -> None:
    groups = [{"params": weight_parameters(model)}, {"params": arch_parameters(model), "lr": 1e-2}]
    optimizer = torch.optim.Adam(groups, lr=1e-2)
    run(model, example).square().mean().backward()
    optimizer.step()


SEARCH_ALL = XDConfig(skips=True, b="trained", C="trained")
every_case = pytest.mark.parametrize("name", CASES)


@every_case
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["float64", "float32"])
def test_a_converted_network_computes_the_same(name, dtype, tolerance):
    model, example = network(name, dtype)
    expected = run(model.eval(), example)
    report = convert_(model, example, XDConfig(skips=True))
    torch.testing.assert_close(run(model, example), expected, rtol=tolerance, atol=tolerance)
    assert report.error < tolerance
    assert report.converted


@every_case
def test_every_reached_layer_is_an_operation_and_the_report_names_each_layer_once(name):
    model, example = network(name)
    layers = {n: m for n, m in model.named_modules() if kind_of(m) and ".parametrizations" not in f".{n}"}
    report = convert_(model, example, XDConfig(skips=True))
    converted = {row.name for row in report.converted}
    assert converted | {row.name for row in report.left_alone} == set(layers)
    assert converted == set(layers) - ({"unused"} if name == "unreached layer" else set())
    for row in report.converted:
        op = model.get_submodule(row.name)
        assert isinstance(op, XDOperation)
        assert (row.size, row.depth) == (op.sizes, op.depth)
        assert row.architecture == sum(p.numel() for _, p in op.architecture()) > 0
        assert f"\n{row.name} " in str(report)


@every_case
def test_parameters_are_either_weights_or_architecture(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    weights, architecture = weight_parameters(model), arch_parameters(model)
    ids = [id(p) for p in (*weights, *architecture)]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {id(p) for p in model.parameters()}


@every_case
def test_a_training_step_moves_weights_and_architecture_and_novelty_sees_it(name):
    model, example = network(name)
    report = convert_(model, example, SEARCH_ALL)
    assert set(novelty(model).values()) == {0.0}
    before = copy.deepcopy(model)
    train_step(model, example)
    for row in report.converted:
        op, old = model.get_submodule(row.name), before.get_submodule(row.name)
        assert 0 < novelty(model)[row.name] < 1
        assert any(not torch.equal(p, q) for (_, p), (_, q) in zip(op.architecture(), old.architecture(), strict=True))
        # The filters of pools and skips have no gradient while L = 0.
        moved = any(not torch.equal(p, q) for p, q in zip(op.weight_parameters(), old.weight_parameters(), strict=True))
        assert moved != row.was.startswith(("AvgPool", "Identity"))


@every_case
def test_the_same_objects_come_back_while_the_architecture_is_untouched(name):
    model, example = network(name)
    modules, keys = dict(model.named_modules()), list(model.state_dict())
    expected = run(model.eval(), example)
    convert_(model, example, XDConfig(skips=True))
    report = revert_(model)
    assert report.exact
    assert all(m is modules[n] for n, m in model.named_modules())
    assert list(model.state_dict()) == keys
    assert torch.equal(run(model, example), expected)


@every_case
def test_weights_trained_under_a_fixed_architecture_come_back_exactly(name):
    model, example = network(name)
    convert_(model, example, XDConfig(trained=()))
    optimizer = torch.optim.SGD(weight_parameters(model), lr=0.1) if weight_parameters(model) else None
    if optimizer is None:
        pytest.skip("no weights at all")
    run(model.train(), example).square().mean().backward()
    optimizer.step()
    trained = run(model.eval(), example)
    assert revert_(model).exact
    torch.testing.assert_close(run(model, example), trained, rtol=1e-10, atol=1e-10)
    assert not any(isinstance(m, XDOperation) for m in model.modules())


@every_case
def test_a_trained_architecture_is_reported_lost(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    away = novelty(model)
    report = revert_(model)
    assert not report.exact
    for row in report.layers:
        assert row.change == pytest.approx(away[row.name])
        assert "lost" in row.note


@every_case
def test_a_state_dict_loads_into_a_freshly_converted_network(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh, _ = network(name)
    convert_(fresh, example, SEARCH_ALL)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(run(fresh.eval(), example), run(model.eval(), example))
    assert novelty(fresh) == novelty(model)


@every_case
def test_a_deep_copy_is_independent_and_remembers_its_start(name):
    model, example = network(name)
    convert_(model, example, SEARCH_ALL)
    train_step(model, example)
    expected, away = run(model.eval(), example), novelty(model)
    twin = copy.deepcopy(model)
    train_step(twin, example)
    assert torch.equal(run(model, example), expected)
    assert novelty(model) == away != novelty(twin)
    assert not ({id(p) for p in model.parameters()} & {id(p) for p in twin.parameters()})
    revert_(twin)
    assert not any(isinstance(m, XDOperation) for m in twin.modules())
    assert {id(p) for p in twin.parameters()}.isdisjoint(id(p) for p in model.parameters())


@every_case
def test_a_change_of_dtype_is_no_change_of_architecture(name):
    model, example = network(name, torch.float32)
    expected = run(model.eval(), example).double()
    convert_(model, example, SEARCH_ALL)
    model.double()
    assert set(novelty(model).values()) == {0.0}
    _, wide = network(name, torch.float64)
    torch.testing.assert_close(run(model, wide), expected, rtol=1e-4, atol=1e-5)
    assert all(p.dtype == torch.float64 for p in model.parameters())
    assert revert_(model).exact


@every_case
def test_conversion_leaves_modes_buffers_and_random_state_as_they_were(name):
    model, example = network(name)
    model.train()
    first = next(model.children())
    first.eval()
    modes = {n: m.training for n, m in model.named_modules()}
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    state = torch.get_rng_state()
    convert_(model, example, SEARCH_ALL)
    novelty(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(b, buffers[n]) for n, b in model.named_buffers() if n in buffers)
    assert all(model.get_submodule(n).training == mode for n, mode in modes.items() if n in dict(model.named_modules()))


@every_case
def test_perturbation_is_relative_seeded_and_part_of_the_start(name):
    (model, example), (twin, _) = network(name), network(name)
    config = XDConfig(perturb=0.05, seed=3)
    convert_(model, example, config)
    convert_(twin, example, config)
    for (key, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert torch.equal(a, b), key
    assert set(novelty(model).values()) == {0.0}
    report = revert_(model)
    assert all(0.01 < row.change < 0.1 for row in report.layers)


def test_parametrized_weights_keep_their_parametrization():
    for name in ("weight norm", "weight norm by a hook", "spectral norm"):
        model, example = network(name)
        convert_(model, example)
        assert parametrize.is_parametrized(model[0], "weight")
    model, example = network("weight norm")
    convert_(model, example)
    train_step(model, example)
    norms = model[0].weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, model[0].parametrizations.weight.original0.flatten().abs())


@pytest.mark.parametrize("name", ["weight norm", "weight norm by a hook", "spectral norm"])
def test_a_parametrized_layer_trains_as_the_original_does_while_the_architecture_is_fixed(name):
    (model, example), (twin, _) = network(name), network(name)
    convert_(twin, example, XDConfig(trained=()))
    outputs = []
    for net in (model.train(), twin.train()):
        optimizer = torch.optim.SGD(weight_parameters(net), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = run(net, example)
            out.square().mean().backward()
            optimizer.step()
        outputs.append(out.detach())
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)


def test_public_names_are_at_the_top():
    assert {"convert_", "revert_", "merge_", "arch_parameters", "weight_parameters", "novelty", "XDConfig"} <= set(xdops.__all__)
