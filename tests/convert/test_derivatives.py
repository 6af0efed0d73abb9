"""Derivatives of converted networks in every way that torch takes them; lines of docs/compatibility.md."""

import copy

import pytest
import torch
from converted import CASES, KINDS, SPACES, X, close, configured, filters_, gradients, network
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from toy_networks import train_step

from xdops import (
    XDOperation,
    convert_,
    merge_,
    novelty,
)
from xdops.spaces import darts_


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


@pytest.mark.parametrize("convert", [convert_, filters_], ids=["xd", "filters"])
def test_flops_are_counted(convert):
    model = network(convert)[:1]
    with FlopCounterMode(display=False) as counter:
        gradients(model)
    assert counter.get_total_flops() > 2 * 3 * model[0].weight.numel() * X[:, 0].numel()  # the convolution's, there and back
    if convert is convert_:
        assert counter.get_total_flops() == model[0].plan_for(X).flops


@KINDS
def test_a_change_between_the_passes_is_noticed(kind):
    """As torch notices it: gradients of other numbers than those of the forward pass would be wrong."""
    model = configured(kind)
    loss = model(X).square().sum()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1)
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


@KINDS
def test_several_graphs_wait_for_their_backward_passes(kind):
    model, inputs = configured(kind), [X, 2 * X, -X]
    expected = [gradients(model, x) for x in inputs]
    losses = [model(x).square().sum() for x in inputs]
    for i in (1, 0, 2):
        model.zero_grad()
        losses[i].backward()
        close([p.grad for p in model.parameters() if p.grad is not None], expected[i])
