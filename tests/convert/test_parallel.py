"""Converted networks in several processes and threads; lines of docs/compatibility.md."""

import copy
import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from converted import KINDS, SPACES, X, close, configured, gradients, network
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader
from toy_networks import ModelAsDataset, train_step

from xdops import XDConfig, XDError, arch_parameters, convert_, merge_, novelty, parameter_groups, revert_, weight_parameters


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
    for verb in (merge_, revert_):
        with pytest.raises(XDError, match="sharded over processes"):
            verb(twin)


@KINDS
def test_data_parallel(kind):
    """Its replicas hold tensors where modules hold parameters; made here by hand, since it makes them for GPUs alone."""

    def replica(module: nn.Module) -> nn.Module:
        made = module._replicate_for_data_parallel()
        for name, p in module._parameters.items():
            if p is None:
                made._parameters[name] = None
            else:
                setattr(made, name, p.view_as(p))
        for name, child in module._modules.items():
            made._modules[name] = replica(child)
        return made

    model = configured(kind)
    expected, wanted = model(X), gradients(model)
    torch.testing.assert_close(nn.DataParallel(model)(X), expected)
    model.zero_grad()
    y = replica(model)(X)
    torch.testing.assert_close(y, expected)
    y.square().sum().backward()
    close([p.grad for p in model.parameters() if p.grad is not None], wanted)


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
