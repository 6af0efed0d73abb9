"""The evaluation as operators of torch, for compilers and exporters, which see through nothing else.

`xdops::evaluate` is planned inside, where shapes are numbers: a compiler sees one node, whatever the form, and any batch size. Its
backward pass is an operator as well, `xdops::evaluate_backward`, which evaluates again and goes back; gradients of gradients
differentiate the plain formula. In eager mode the same evaluation runs without operators, which saves its second forward pass.
Function transforms (`torch.func`) and dual numbers (`torch.autograd.forward_ad`) get the plain formula itself, which can be
differentiated and vectorised in any way.

The description, a text, says which kind of operation it is: `Description`, or `ShiftDescription`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from xdops.engine.description import Description
from xdops.engine.evaluate import evaluate
from xdops.engine.evaluation import Evaluation, Operands
from xdops.engine.forms import definition, taps
from xdops.engine.geometry import Line
from xdops.engine.passes import Maybe
from xdops.engine.plan import Plan
from xdops.engine.planner import make_plan
from xdops.engine.shift import ShiftDescription, ShiftWindow, convolve, evaluate_shift, long_filters, plan_shift
from xdops.engine.tracing import is_transformed

AnyDescription = Description | ShiftDescription


def evaluate_traced(description: Description, operands: Operands, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`evaluate`, where somebody is watching (`is_traced`)."""
    if not torch.compiler.is_compiling() and is_transformed():
        return _plain(description, operands, x, dtype)
    return evaluate_as_operator(description, operands, x, dtype)


def evaluate_as_operator(description: AnyDescription, operands: Operands, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`evaluate`, or `evaluate_shift`, as one node of a graph."""
    o = operands
    return operator(x, o.weight, o.b, o.C, o.values, o.columns, description.encode(), dtype)


def decode(text: str) -> AnyDescription:
    """Of either kind."""
    return ShiftDescription.decode(text) if ShiftDescription.encoded(text) else Description.decode(text)


def _evaluate(description: AnyDescription, operands: Operands, x: Tensor, dtype: torch.dtype) -> Tensor:
    if isinstance(description, Description):
        return evaluate(description, operands, x, dtype)
    with torch.autocast(x.device.type, enabled=False):
        return evaluate_shift(description, operands, x.to(dtype))


def _plain(description: AnyDescription, operands: Operands, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same by the formula as it stands, in steps that can be differentiated as often as one likes."""
    if isinstance(description, ShiftDescription):
        return convolve(description, x.to(dtype), long_filters(description, operands), None)
    e = Evaluation(description, operands, x, dtype)
    return definition.evaluate(e, Plan("definition")) if description.causal is None else taps.plain(e)


_KEYS = torch._C.DispatchKey

#: What makes conjugates and negatives, which torch only marks, into numbers. Inside an operator that a dispatch mode has called
#: (one that counts flops, say) it is switched off, and then products of complex numbers are wrong without a word.
_MARKS = (_KEYS.Conjugate, _KEYS.Negative, _KEYS.ZeroTensor)

#: What records for a backward pass: switched off inside of every operator.
_AUTOGRAD = (_KEYS.AutogradFunctionality, _KEYS.AutogradOther)


@contextmanager
def switched_on(*keys: torch._C.DispatchKey) -> Iterator[None]:
    """Parts of torch's dispatcher that may be switched off inside an operator, thread-wide, are on in this context."""
    before = [torch._C._dispatch_tls_is_dispatch_key_excluded(key) for key in keys]
    try:
        for key in keys:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        yield
    finally:
        for key, excluded in zip(keys, before, strict=True):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


@torch.library.custom_op("xdops::evaluate", mutates_args=())
def operator(
    x: Tensor,
    weight: Tensor,
    b: Tensor | None,
    C: Tensor | None,
    values: Sequence[Tensor],
    columns: Sequence[Tensor],
    description: str,
    dtype: torch.dtype,
) -> Tensor:
    with switched_on(*_MARKS):
        y = _evaluate(decode(description), Operands(weight, b, C, list(values), list(columns)), x, dtype)
        return y.contiguous()


@operator.register_fake
def _(x: Tensor, weight: Tensor, *others: Any) -> Tensor:
    *_, description, dtype = others
    known = decode(description)
    lines: Sequence[Line | ShiftWindow] = known.lines
    outputs = [line.out(m) for line, m in zip(lines, x.shape[2:], strict=True)]
    return x.new_empty((x.shape[0], known.channels(weight.shape)[1], *outputs), dtype=dtype)


@torch.library.custom_op("xdops::evaluate_backward", mutates_args=())
def backward_operator(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    b: Tensor | None,
    C: Tensor | None,
    values: Sequence[Tensor],
    columns: Sequence[Tensor],
    description: str,
    dtype: torch.dtype,
    needs: Sequence[bool],
) -> list[Tensor]:
    """The gradients that are needed of (x, weight, b, C, *values), in this order."""
    with switched_on(*_MARKS, *_AUTOGRAD), torch.enable_grad():
        tensors = [
            t if t is None else t.detach().requires_grad_(need) for t, need in zip((x, weight, b, C, *values), needs, strict=True)
        ]
        y = _evaluate(decode(description), *_operands(tensors, columns), dtype)
        wanted = [t for t in tensors if t is not None and t.requires_grad]
        return [t.clone(memory_format=torch.contiguous_format) for t in torch.autograd.grad(y, wanted, g.to(y.dtype))]


@backward_operator.register_fake
def _(g: Tensor, x: Tensor, weight: Tensor, b: Maybe, C: Maybe, values: Sequence[Tensor], *others: Any) -> list[Tensor]:
    *_, needs = others
    pairs = zip((x, weight, b, C, *values), needs, strict=True)
    return [t.new_empty(t.shape) for t, need in pairs if need and t is not None]


def _operands(tensors: Sequence[Maybe], columns: Sequence[Tensor]) -> tuple[Operands, Tensor]:
    """From (x, weight, b, C, *values): all but x, and x."""
    x, weight, b, C, *values = tensors
    assert x is not None
    assert weight is not None
    return Operands(weight, b, C, [v for v in values if v is not None], list(columns)), x


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, b, C, values, columns, ctx.description, ctx.dtype = inputs
    ctx.columns = len(columns)
    ctx.save_for_backward(x, weight, b, C, *columns, *values)


def _backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    x, weight, b, C, *rest = ctx.saved_tensors
    columns, values = rest[: ctx.columns], rest[ctx.columns :]
    need_x, need_w, need_b, need_C, need_values, *_ = ctx.needs_input_grad
    needs = [need_x, need_w, need_b, need_C, *need_values]
    found = iter(backward_operator(g, x, weight, b, C, values, columns, ctx.description, ctx.dtype, needs))
    grads = [next(found) if need else None for need in needs]
    return *grads[:4], grads[4:], [None] * len(columns), None, None


operator.register_autograd(_backward, setup_context=_setup)


def _setup_twice(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    g, x, weight, b, C, values, columns, ctx.description, ctx.dtype, ctx.needs = inputs
    ctx.columns = len(columns)
    ctx.save_for_backward(g, x, weight, b, C, *columns, *values)


def _backward_twice(ctx: Any, grads: list[Maybe]) -> tuple[Any, ...]:
    """From gradients of the gradients to those of (g, x, weight, b, C, values)."""
    g, x, weight, b, C, *rest = ctx.saved_tensors
    columns, values = rest[: ctx.columns], rest[ctx.columns :]
    description = decode(ctx.description)
    tensors: list[Maybe] = [x, weight, b, C, *values]
    chosen = [i for i, need in enumerate(ctx.needs) if need]

    def gradients(g: Tensor, *wanted: Tensor) -> tuple[Tensor, ...]:
        def plain(*wanted: Tensor) -> Tensor:
            placed = list(tensors)
            for i, t in zip(chosen, wanted, strict=True):
                placed[i] = t
            return _plain(description, *_operands(placed, columns), ctx.dtype)

        found: tuple[Tensor, ...] = torch.func.vjp(plain, *wanted)[1](g)
        return found

    inputs = [t for i in chosen if (t := tensors[i]) is not None]
    given = tuple(torch.zeros_like(t) if grad is None else grad for grad, t in zip(grads, inputs, strict=True))
    back = torch.func.vjp(gradients, g, *inputs)[1]
    grad_g, *found = back(given)
    out: list[Maybe] = [None] * len(tensors)
    for i, t in zip(chosen, found, strict=True):
        out[i] = t
    return grad_g, *out[:4], out[4:], [None] * len(columns), None, None, None


backward_operator.register_autograd(_backward_twice, setup_context=_setup_twice)


@register_flop_formula(torch.ops.xdops.evaluate, get_raw=True)
def _flops(*arguments: Any, **_: Any) -> int:
    """For `torch.utils.flop_counter`, which counts operators that it does not know as nothing. In training by the form that is
    planned for both passes."""
    x, weight, b, C, values = arguments[:5]
    train = any(t is not None and t.requires_grad for t in (x, weight, b, C, *values))
    form, flops = _planned_flops(arguments, "auto", train=train, train_arch=any(t.requires_grad for t in values))
    return _planned_flops(arguments, form, train=False)[1] if train else flops


@register_flop_formula(torch.ops.xdops.evaluate_backward, get_raw=True)
def _flops_backward(g: Tensor, *arguments: Any, **_: Any) -> int:
    """Those of the backward pass alone, as in eager mode: the operator's second forward pass is its own affair."""
    *tensors, needs = arguments
    form, both = _planned_flops(tensors, "auto", train=True, train_arch=any(needs[4:]))
    return both - _planned_flops(tensors, form, train=False)[1]


def _planned_flops(arguments: Sequence[Any], form: str, train: bool, train_arch: bool = False) -> tuple[str, int]:
    x, weight, b, C, values, columns, text, dtype = arguments
    description, operands = decode(text), Operands(weight, b, C, list(values), list(columns))
    if isinstance(description, ShiftDescription):
        forward = plan_shift(description, operands, x)
        return forward.form, round(3 * forward.flops if train else forward.flops)
    asked = description.plan if isinstance(description.plan, str) else description.plan.form
    work = Evaluation(description, operands, x, dtype).workload()
    plan = make_plan(replace(work, train=train, train_arch=train_arch), form if asked == "auto" else asked)
    return plan.form, round(plan.flops)
