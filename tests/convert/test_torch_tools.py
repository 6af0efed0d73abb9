"""Converted networks in torch's other tools, one test per line of docs/compatibility.md."""

import copy
import dataclasses
import io
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from compilers import needs_compiler
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.distributed.fsdp import fully_shard
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode
from toy_networks import ModelAsDataset, train_step

from xdops import (
    XDConfig,
    XDError,
    XDOperation,
    arch_parameters,
    convert_,
    merge_,
    novelty,
    parameter_groups,
    revert_,
    weight_parameters,
)
from xdops.spaces import darts_

X = torch.randn(3, 2, 12, generator=torch.Generator().manual_seed(0))


def network(convert: Callable[..., object] = convert_, dims: int = 1) -> nn.Sequential:
    """Trained a little, so that no operation is its convolution any longer."""
    torch.manual_seed(0)
    conv, norm, pool = ((nn.Conv1d, nn.BatchNorm1d, nn.AvgPool1d), (nn.Conv2d, nn.BatchNorm2d, nn.AvgPool2d))[dims - 1]
    model = nn.Sequential(conv(2, 4, 3, padding=1), norm(4), nn.ReLU(), pool(2), conv(4, 2, 3, dilation=2))
    x = X if dims == 1 else X[..., None] * torch.ones(12)
    convert(model, x, XDConfig(b="trained"))
    train_step(model, x)
    return model.eval()


def gradients(model: nn.Module, x: Tensor = X) -> list[Tensor]:
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def close(a: list[Tensor], b: list[Tensor], tolerance: float = 1e-4) -> None:
    assert len(a) == len(b) > 0
    for s, t in zip(a, b, strict=True):
        torch.testing.assert_close(s, t, rtol=tolerance, atol=tolerance * float(t.abs().max()))


def filters_(model: nn.Module, example: Tensor, config: XDConfig) -> object:
    """Shift-invariant operations."""
    return convert_(model, example, dataclasses.replace(config, shift_invariant=True, span=6))


CASES = pytest.mark.parametrize(
    ("convert", "merged"),
    [(convert_, False), (convert_, True), (filters_, False), (filters_, True), (darts_, False)],
    ids=["xd", "merged", "filters", "merged filters", "darts"],
)
SPACES = pytest.mark.parametrize("convert", [convert_, filters_, darts_], ids=["xd", "filters", "darts"])


@pytest.fixture
def process_group(tmp_path: Path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@SPACES
@pytest.mark.usefixtures("process_group")
def test_ddp(convert):
    model = network(convert)
    expected = gradients(model)
    close(gradients(DistributedDataParallel(copy.deepcopy(model))), expected)


@SPACES
@pytest.mark.usefixtures("process_group")
def test_fsdp2(convert):
    model, twin = network(convert).train(), network(convert).train()
    for layer in twin:
        fully_shard(layer)
    fully_shard(twin)
    for net in (model, twin):
        listed = {id(p) for p in (*arch_parameters(net), *weight_parameters(net))}
        assert listed >= {id(p) for p in net.parameters() if p.requires_grad}
        optimizer = torch.optim.SGD(parameter_groups(net, lr=0.1, arch_lr=0.01))
        optimizer.zero_grad()
        net(X).square().sum().backward()
        optimizer.step()
    close([p.full_tensor().detach() for p in twin.parameters()], [p.detach() for p in model.parameters()], 1e-5)
    assert novelty(twin) == pytest.approx(novelty(model), rel=1e-4)
    torch.testing.assert_close(twin(X), model(X))


@needs_compiler
def test_compile_with_inductor():
    model = network()[:1]
    merge_(model)
    with torch._inductor.config.patch(compile_threads=1), torch.no_grad():
        compiled = torch.compile(copy.deepcopy(model), backend="inductor", fullgraph=True)
        torch.testing.assert_close(compiled(X), model(X), rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.filterwarnings("ignore")  # torch announces to itself what it will no longer do
def test_aot_inductor(tmp_path: Path):
    model = network()[:1]
    merge_(model)
    program = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    with torch._inductor.config.patch(compile_threads=1):
        file = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
    compiled = torch._inductor.aoti_load_package(file)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@CASES
def test_compile(convert, merged):
    model = network(convert)
    if merged:
        model = model[:1]
        merge_(model)
    compiled = torch.compile(copy.deepcopy(model), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), model(X))
    if not merged:
        close(gradients(compiled), gradients(model))
        with torch.no_grad():  # a compiled network follows its parameters
            for net in (model, compiled):
                for p in arch_parameters(net):
                    p *= 1.01
        torch.testing.assert_close(compiled(X), model(X))


@CASES
@pytest.mark.filterwarnings("ignore")  # torch announces that TorchScript ends
def test_jit_trace(convert, merged):
    model = network(convert)
    if merged:
        merge_(model)
    traced = torch.jit.trace(model, X)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(traced(x), model(x))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(X), model(X))
    with torch.no_grad():  # the trace has the parameters, not what the network computed with them
        for p in arch_parameters(model):
            p *= 1.01
    torch.testing.assert_close(traced(X), model(X))


@CASES
def test_export_with_dynamic_batch(convert, merged):
    exported(convert, merged, strict=False)


def test_strict_export():
    exported(convert_, merged=False, strict=True)


def exported(convert, merged, strict):
    model = network(convert)
    if merged:
        model = model[:1]
        merge_(model)
    batch = {0: torch.export.Dim("batch", min=2, max=64)}
    program = torch.export.export(model, (X,), dynamic_shapes=(batch,), strict=strict)
    for x in (X, torch.randn(5, 2, 12)):
        torch.testing.assert_close(program.module()(x), model(x))


@CASES
def test_amp(convert, merged):
    model = network(convert)
    expected, wanted = model(X), gradients(model)
    if merged:
        merge_(model)
    with torch.autocast("cpu", torch.bfloat16):
        given = model(X)
        torch.testing.assert_close(given.float(), expected, rtol=0.1, atol=0.05 * float(expected.detach().abs().max()))
        if not merged:
            for given, exact in zip(gradients(model), wanted, strict=True):
                assert (given - exact).norm() < 0.2 * exact.norm() + 1e-6


@SPACES
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(convert, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = network(convert)

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.inside, x.requires_grad_(), use_reentrant=reentrant)

    close(gradients(Checkpointed(), X.clone()), gradients(network(convert)))


def test_saved_tensor_hooks_see_what_is_kept_for_the_backward_pass():
    model, sizes = network(), []
    expected = gradients(model)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t.clone(), lambda t: t):
        close(gradients(model), expected)
    assert sum(sizes) > X.numel()


@SPACES
def test_func_grad_and_per_sample_gradients(convert):
    model = network(convert)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    buffers = dict(model.named_buffers()) | {n: p for n, p in model.named_parameters() if not p.requires_grad}

    def loss(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, (given, buffers), (x[None],)).square().sum()

    wanted = dict(zip(parameters, torch.autograd.grad(model(X).square().sum(), [*parameters.values()]), strict=True))
    learned = {n: p.detach() for n, p in parameters.items()}
    each = vmap(grad(loss), in_dims=(None, 0))(learned, X)
    close([each[n].sum(0) for n in wanted], [*wanted.values()])
    alone = grad(loss)(learned, X[0])
    close([each[n][0] for n in wanted], [alone[n] for n in wanted])


@SPACES
def test_jacobians_and_second_derivatives(convert):
    model, x = network(convert).double(), X[:1].double()
    one_by_one = jacobian(model, x)
    close([jacobian(model, x, vectorize=True), jacrev(model)(x)], [one_by_one, one_by_one], 1e-10)
    weights = [p for p in model.parameters() if p.requires_grad]
    y = model(x.requires_grad_())
    slopes = torch.autograd.grad(y.square().sum(), weights, create_graph=True)  # a penalty of the gradient
    direction = [torch.randn_like(p) for p in weights]
    along = torch.autograd.grad(slopes, weights, direction)

    def gradients_at(t: float) -> list[Tensor]:
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for p, d in zip((p for p in moved.parameters() if p.requires_grad), direction, strict=True):
                p.add_(t * d)
        return list(torch.autograd.grad(moved(x).square().sum(), [p for p in moved.parameters() if p.requires_grad]))

    forward, backward = gradients_at(1e-6), gradients_at(-1e-6)
    close(list(along), [(f - b) / 2e-6 for f, b in zip(forward, backward, strict=True)], 1e-6)


@CASES
def test_dual_numbers(convert, merged):
    model, x = network(convert).double(), X.double()
    if merged:
        merge_(model)
    parameters = dict(model.named_parameters()) | dict(model.named_buffers())
    parameters = {n: p.detach() for n, p in parameters.items() if p.is_floating_point() and "running" not in n}
    directions = {n: torch.randn_like(p) for n, p in parameters.items()}
    along = torch.randn_like(x)
    with forward_ad.dual_level():
        duals = {n: forward_ad.make_dual(p, directions[n]) for n, p in parameters.items()}
        given = forward_ad.unpack_dual(functional_call(model, duals, (forward_ad.make_dual(x, along),))).tangent

    def moved(t: float) -> Tensor:
        return functional_call(model, {n: p + t * directions[n] for n, p in parameters.items()}, (x + t * along,)).detach()

    close([given], [(moved(1e-6) - moved(-1e-6)) / 2e-6], 1e-6)


@pytest.mark.parametrize("convert", [convert_, filters_], ids=["xd", "filters"])
def test_flops_are_counted(convert):
    model = network(convert)[:1]
    with FlopCounterMode(display=False) as counter:
        gradients(model)
    assert counter.get_total_flops() > 2 * 3 * model[0].weight.numel() * X[:, 0].numel()  # the convolution's, there and back
    if convert is convert_:
        assert counter.get_total_flops() == model[0].plan_for(X).flops


@SPACES
def test_dispatch_modes(convert):
    """Whoever looks at every operator, as the counter of flops does, changes no gradient."""
    model = network(convert)
    for module in model.modules():
        if isinstance(module, XDOperation):
            module.plan = "grouped"  # multiplies complex numbers
    expected = gradients(model)
    with FlopCounterMode(display=False):
        close(gradients(model), expected)


@CASES
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(convert, merged, dtype):
    model, x = network(convert).to(dtype), X.to(dtype)
    twin = copy.deepcopy(model).float()  # the same numbers, in arithmetic that does not round them
    expected, wanted = twin(x.float()), gradients(twin, x.float())
    if merged:
        merge_(model)
    given = model(x)
    assert given.dtype == dtype
    assert (given - expected).norm() < 0.05 * expected.norm()
    if not merged:
        for slope, exact in zip(gradients(model, x), wanted, strict=True):
            assert (slope - exact).norm() < 0.2 * exact.norm() + 1e-6


@pytest.mark.parametrize("convert", [convert_, filters_], ids=["xd", "filters"])
def test_another_default_device(convert):
    expected = network(convert)(X)
    torch.set_default_device("meta")
    try:
        model = nn.Sequential(nn.Conv1d(2, 3, 3, device="cpu"), nn.Conv1d(3, 2, 3, device="cpu"))
        y = model(X)
        convert(model, X, XDConfig(perturb=1e-7))
        torch.testing.assert_close(model(X), y, rtol=1e-4, atol=1e-4)
        gradients(model)
        merge_(model)
        torch.testing.assert_close(model(X), y, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_default_device(None)
    assert torch.equal(network(convert)(X), expected)  # nothing was kept of that device


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


@SPACES
def test_vmap_over_an_ensemble(convert):
    models = [network(convert) for _ in range(2)]
    train_step(models[1], X)
    models[1].eval()
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta") if convert is darts_ else copy.deepcopy(models[0])
    together = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, X)
    for given, model in zip(together, models, strict=True):
        torch.testing.assert_close(given, model(X))


@SPACES
def test_functional_call(convert):
    model = network(convert)
    moved = {n: p.detach() * 1.1 for n, p in model.named_parameters()}
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for n, p in twin.named_parameters():
            p.copy_(moved[n])
    away = novelty(model)
    torch.testing.assert_close(functional_call(model, moved, (X,)), twin(X))
    assert novelty(model) == away != novelty(twin)


@SPACES
def test_load_state_dict_with_assign(convert):
    model, twin = network(convert), network(convert)
    train_step(twin, X)
    model.load_state_dict({k: v.clone() for k, v in twin.state_dict().items()}, assign=True)
    ids = {id(p) for p in model.parameters()}
    assert {id(p) for p in (*arch_parameters(model), *weight_parameters(model))} == {
        id(p) for p in model.parameters() if p.requires_grad
    }
    assert novelty(model) == novelty(twin)
    assert torch.equal(model.eval()(X), twin.eval()(X))
    close(gradients(model), gradients(twin))
    train_step(model, X)
    assert novelty(model) != novelty(twin)
    revert_(model)
    assert id(model[1].weight) in ids


@SPACES
def test_moving_averages(convert):
    model = network(convert)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for _ in range(2):
        train_step(model, X)
        average.update_parameters(model)
    assert set(novelty(average)) == {f"module.{name}" for name in novelty(model)}
    assert all(0 < a != b for a, b in zip(novelty(average).values(), novelty(model).values(), strict=True))
    last, first = model[0].weight, average.module[0].weight
    assert not torch.equal(last, first)
    average.eval()(X)
    merge_(average)
    average(X)


@SPACES
def test_prune(convert):
    model = network(convert)
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    assert (model[0].weight == 0).sum() == model[0].weight.numel() // 2
    gradients(model)
    assert (model[0].weight_orig.grad == 0).sum() >= model[0].weight.numel() // 2
    expected = model(X).detach()
    prune.remove(model[0], "weight")
    assert torch.equal(model(X), expected)


@SPACES
def test_deepcopy(convert):
    model = network(convert)
    twin = copy.deepcopy(model)
    train_step(twin, X)
    assert novelty(model) != novelty(twin)
    assert {id(p) for p in model.parameters()}.isdisjoint(id(p) for p in twin.parameters())


@CASES
def test_pickle(convert, merged):
    model = network(convert)
    away = novelty(model)
    if merged:
        merge_(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(X), model(X))
        if not merged:
            assert novelty(twin) == away
            close(gradients(twin), gradients(model))
        revert_(twin)
        assert type(twin[0]) is nn.Conv1d


@SPACES
def test_channels_last(convert):
    model = network(convert, dims=2)
    x = torch.randn(3, 2, 12, 12)
    expected = model(x)
    given = model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(given, expected)
    merge_(model)
    torch.testing.assert_close(model(x.to(memory_format=torch.channels_last)), expected)


def computed(seed: int, norm: Callable[[nn.Module], nn.Module]) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(norm(nn.Conv1d(2, 4, 3, padding=1)), nn.ReLU(), norm(nn.Conv1d(4, 2, 3)))
    convert_(model, X)
    return model


def in_threads(tasks: list[Callable[[], object]]) -> list[object]:
    results: list[object] = [None] * len(tasks)
    start = threading.Barrier(len(tasks))

    def work(i: int) -> None:
        start.wait()
        results[i] = tasks[i]()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("norm", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_two_models_train_in_two_threads(norm):
    def trained(seed: int) -> list[Tensor]:
        model = models[seed]
        for _ in range(5):
            train_step(model, X)
        return [p.detach() for p in model.parameters()]

    models = [computed(seed, norm) for seed in (0, 1)]
    alone = [trained(0), trained(1)]
    models = [computed(seed, norm) for seed in (0, 1)]
    together = in_threads([lambda: trained(0), lambda: trained(1)])
    for a, b in zip(alone, together, strict=True):
        assert all(torch.equal(s, t) for s, t in zip(a, b, strict=True))


def test_one_model_serves_two_threads():
    model = computed(0, parametrizations.weight_norm).eval()
    inputs = [torch.randn(2, 2, 12), torch.randn(3, 2, 12)]
    learned = [*model.parameters()]

    def work(x: Tensor) -> list[Tensor]:
        return [y for _ in range(10) for y in (model(x).detach(), *torch.autograd.grad(model(x).square().sum(), learned))]

    alone = [work(x) for x in inputs]
    for a, b in zip(alone, in_threads([lambda: work(inputs[0]), lambda: work(inputs[1])]), strict=True):
        assert all(torch.equal(s, t) for s, t in zip(a, b, strict=True))


@pytest.mark.parametrize(("start", "merged"), [("fork", False), ("fork", True), ("spawn", False)])
def test_worker_processes(start, merged):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this system")
    model = network()
    expected = model(X).detach()  # forks with everything that one call leaves behind
    if merged:
        merge_(model)
    loader = DataLoader(ModelAsDataset(model, X), batch_size=None, num_workers=1, multiprocessing_context=start)
    torch.testing.assert_close(torch.stack([*loader]), expected)


@pytest.mark.parametrize(("start", "merged"), [("fork", False), ("fork", True), ("spawn", True)])
def test_pools_of_processes(start, merged):
    """Large enough for memory that the engine uses again: what a worker has sent must not change with its next call."""
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this system")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1, bias=False))
    inputs = torch.randn(3, 8, 2, 640).unbind()
    convert_(model, inputs[0], XDConfig(perturb=0.01))
    model.requires_grad_(False)
    expected = [model(x) for x in inputs]
    if merged:
        merge_(model)
    with torch.multiprocessing.get_context(start).Pool(1) as pool:
        torch.testing.assert_close(pool.map(model, inputs, chunksize=1), expected, rtol=1e-4, atol=1e-4)
