"""Every tool of the torch world sees the operation as it sees a convolution: what it computes follows from its parameters alone."""

import copy
import io
import threading

import pytest
import torch
from compilers import needs_compiler
from moved_operations import KINDS, assert_close, moved
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint

from xdops import XDError, XDOperation
from xdops.engine.operator import operator


def gradients(op: nn.Module, run, x: Tensor) -> list[Tensor]:
    op.zero_grad()
    x = x.detach().requires_grad_()
    y = run(x)
    (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in op.parameters())]


@pytest.mark.parametrize("kind", KINDS)
def test_the_operator_equals_the_evaluation_in_values_gradients_and_shapes(kind: str):
    op, x = moved(kind, torch.float64)
    o = op.operands()
    arguments = (o.weight, o.b, o.C, o.values, o.columns, op.description().encode(), x.dtype)
    bias = op.bias.reshape(-1, *(1 for _ in op.axes))
    assert_close(gradients(op, lambda x: operator(x, *arguments) + bias, x), gradients(op, op, x), 1e-10)
    assert op.to("meta")(x.to("meta")).shape == operator(x, *arguments).shape


@pytest.mark.parametrize("kind", ["1d", "causal"])
def test_the_operator_passes_the_checks_of_torch(kind: str):
    op, x = moved(kind, torch.float64)
    o = op.operands()
    arguments = (x.requires_grad_(), o.weight, o.b, o.C, o.values, o.columns, op.description().encode(), x.dtype)
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def test_a_compiled_operation_computes_the_same_for_every_batch_without_compiling_again(backend: str):
    op, x = moved()
    torch._dynamo.reset()
    compiled = torch.compile(op, backend=backend, fullgraph=True, dynamic=True)
    assert_close(gradients(op, compiled, x), gradients(op, op, x))
    x.requires_grad_()
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert_close([compiled(y) for y in (x[:2], torch.cat((x, x, x)))], [op(y) for y in (x[:2], torch.cat((x, x, x)))])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("kind", ["2d", "causal"])
def test_export_takes_a_dynamic_batch(kind: str, strict: bool):
    op, x = moved(kind)
    batch = torch.export.Dim("batch")
    program = torch.export.export(op, (x,), dynamic_shapes=({0: batch},), strict=strict)
    for y in (x, x[:2], torch.cat((x, x))):
        assert_close([program.module()(y)], [op(y)])


def test_gradients_per_example_and_ensembles_by_vmap():
    op, x = moved(dtype=torch.float64)
    parameters = dict(op.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(op, parameters, (x[None],)).square().sum()

    given = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i, one in enumerate(x):
        op.zero_grad()
        op(one[None]).square().sum().backward()
        for name, p in op.named_parameters():
            torch.testing.assert_close(given[name][i], p.grad, rtol=1e-10, atol=1e-10)

    other, _ = moved(dtype=torch.float64)
    stacked, buffers = stack_module_state([op, other])
    y = vmap(lambda p, b: functional_call(op, (p, b), (x,)))(stacked, buffers)
    torch.testing.assert_close(y, torch.stack((op(x), other(x))), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["1d", "causal"])
def test_second_derivatives_by_function_transforms(kind: str):
    op, x = moved(kind, torch.float64)
    parameters = {name: p.detach() for name, p in op.named_parameters()}

    def first(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return grad(lambda x: functional_call(op, parameters, (x,)).pow(3).sum())(x).square().sum()

    given = grad(first)(parameters, x)
    x.requires_grad_()
    (g,) = torch.autograd.grad(op(x).pow(3).sum(), x, create_graph=True)
    expected = torch.autograd.grad(g.square().sum(), list(op.parameters()), allow_unused=True)
    for name, e in zip(given, expected, strict=True):
        torch.testing.assert_close(given[name], torch.zeros_like(given[name]) if e is None else e, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_computes_the_same(kind: str, reentrant: bool):
    op, x = moved(kind, torch.float64)
    assert_close(gradients(op, lambda x: checkpoint(op, x, use_reentrant=reentrant), x), gradients(op, op, x), 1e-12)


def test_what_is_kept_for_the_backward_pass_is_seen_by_saved_tensor_hooks():
    op, x = moved()
    op.plan = "spectral"
    sizes = []

    def pack(t: Tensor) -> Tensor:
        sizes.append(t.numel())
        return t.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        given = gradients(op, op, x)
    assert_close(given, gradients(op, op, x))
    transformed = 2 * op.sizes[0] * 3 * 2, 2 * op.sizes[0] * 3 * 3
    assert set(transformed) <= set(sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_gives_an_empty_output_and_gradients_of_zero(kind: str):
    op, x = moved(kind)
    y, grad_x, *others = gradients(op, op, x[:0])
    assert y.shape == (0, *op(x).shape[1:])
    assert grad_x.shape == x[:0].shape
    assert all(g.count_nonzero() == 0 for g in others)


def test_the_input_may_be_given_by_name_and_the_attributes_of_the_convolution_are_there():
    conv = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, padding_mode="reflect")
    op, x = XDOperation.from_conv(conv, (9, 8)), torch.randn(1, 2, 9, 8)
    torch.testing.assert_close(op(input=x), conv(input=x), rtol=1e-5, atol=1e-5)
    for name in ("stride", "padding", "dilation", "groups", "kernel_size", "in_channels", "out_channels", "padding_mode",
                 "output_padding", "transposed"):  # fmt: skip
        assert getattr(op, name) == getattr(conv, name), name


def change_by_assignment(op: XDOperation, state: dict[str, Tensor]) -> None:
    op.load_state_dict(state, assign=True)


def change_by_replacing_matrices(op: XDOperation, state: dict[str, Tensor]) -> None:
    other = copy.deepcopy(op)
    other.load_state_dict(state)
    for name in "KLM":
        getattr(op, name)[0] = getattr(other, name)[0]


def change_by_swapping_parameters(op: XDOperation, state: dict[str, Tensor]) -> None:
    for name, value in state.items():
        owner, _, last = name.rpartition(".")
        parameters = op.get_submodule(owner)._parameters
        was = parameters[last]
        parameters[last] = nn.Parameter(value, requires_grad=was is not None and was.requires_grad)


@pytest.mark.parametrize("change", [change_by_assignment, change_by_replacing_matrices, change_by_swapping_parameters])
def test_whoever_puts_other_parameters_in_place_they_are_what_counts(change):
    conv = nn.Conv1d(2, 3, 3, padding=1)
    op, x = XDOperation.from_conv(conv, 12).freeze(), torch.randn(2, 2, 12)
    assert torch.equal(op(x), conv(x))
    state = {name: value * 1.2 if name[0] in "KLM" else value for name, value in op.state_dict().items()}
    fresh = copy.deepcopy(op)
    fresh.load_state_dict(state)
    change(op, state)
    assert not op.untouched
    torch.testing.assert_close(op(x), fresh(x), rtol=0, atol=0)
    assert (op(x) - conv(x)).abs().max() > 1e-2
    assert [id(p) for _, p in op.architecture()] == [id(p) for n, p in op.named_parameters() if n[0] in "KLM"]


def test_functional_call_computes_with_the_given_parameters_even_while_the_operation_is_its_source():
    op, x = XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=1), 12).freeze(), torch.randn(2, 2, 12)
    changed = {name: p * 1.2 for name, p in op.named_parameters()}
    other = copy.deepcopy(op)
    other.load_state_dict(changed)
    torch.testing.assert_close(functional_call(op, changed, (x,)), other(x))
    assert op.untouched


def test_a_compiled_operation_follows_its_parameters_when_they_leave_the_start():
    op, x = XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=1), 12).freeze(), torch.randn(2, 2, 12)
    torch._dynamo.reset()
    compiled = torch.compile(op, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), op(x), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        op.K[0].values[0].mul_(1.5)
    torch.testing.assert_close(compiled(x), op(x), rtol=1e-5, atol=1e-5)


def test_a_pickled_operation_and_one_from_a_meta_device_are_the_same():
    op, x = moved()
    file = io.BytesIO()
    torch.save(op, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), op(x))
    with torch.device("meta"):
        empty = XDOperation.from_conv(nn.Conv1d(2, 3, 3, padding=1), 12)
    assert empty(x.to("meta")).device.type == "meta"
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(op.state_dict())
    assert torch.equal(filled(x), op(x))


def test_threads_do_not_share_working_memory():
    op, _ = moved("2d", torch.float64)
    inputs = [torch.randn(40, 2, 8, 6, dtype=torch.float64) for _ in range(4)]
    expected = [op(x).detach() for x in inputs]
    found: list[Tensor | None] = [None] * len(inputs)

    def work(i: int) -> None:
        for _ in range(5):
            found[i] = op(inputs[i]).detach()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_close(found, expected, 1e-12)


def test_a_length_just_below_a_circular_period_is_refused_with_the_lengths_that_fit():
    op = XDOperation.from_conv(nn.Conv1d(2, 2, 5, padding=2, padding_mode="circular"), 24)
    conv = nn.Conv1d(2, 2, 5, padding=2, padding_mode="circular")
    conv.weight, conv.bias = op.weight, op.bias
    for m in (24, 20, 7):
        x = torch.randn(1, 2, m)
        torch.testing.assert_close(op(x), conv(x), rtol=1e-5, atol=1e-5)
    for m in (21, 23):
        with pytest.raises(XDError, match="24, the operation's own period, or at most 20"):
            op(torch.randn(1, 2, m))
