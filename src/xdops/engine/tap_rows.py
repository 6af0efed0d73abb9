"""The rows of a window's operation: row r of K diag(L[:, j]) M for every tap j.

A handful of vectors of a few dozen numbers go through a handful of butterflies, where a call costs far more than its arithmetic.
So where there are kernels, all of it is one node in torch's graph; elsewhere it is torch's own products. A compiler sees one
operator: to follow every product would take it ten times as long as the rest of a network.
"""

import ast
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from xdops.engine.description import MatrixLayout
from xdops.engine.kernels import can_run
from xdops.engine.operator import is_traced, recording
from xdops.matrices import KMatrix
from xdops.matrices.learnable import assemble
from xdops.matrices.pairs import to_complex, to_pairs


def tap_rows(row: int, taps: int, layouts: Sequence[MatrixLayout], values: Sequence[Tensor]) -> Tensor:
    """Row `row` of K diag(L[:, j]) M for j = 0..taps-1, complex, (taps, n), from layouts of K, L and M and all their values."""
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        return to_complex(operator(list(values), repr(tuple(layouts)), row, taps))
    matrices, rest = [], list(values)
    for layout in layouts:
        matrices.append(assemble(layout, rest[: len(layout)]))
        rest = rest[len(layout) :]
    if is_traced(values[0]) or not can_run(values[0].dtype, values[0].device.type):
        return tap_rows_by_torch(row, taps, *matrices)
    from xdops.engine.kernels.tap_rows import tap_rows_by_kernel

    return tap_rows_by_kernel(row, taps, *matrices)


def tap_rows_by_torch(row: int, taps: int, K: KMatrix, L: KMatrix, M: KMatrix) -> Tensor:
    """The same on any device, and for any transformation of torch's."""
    unit = torch.eye(K.n, dtype=K.dtype, device=K.butterflies[0].values.device)
    return M.transpose().apply(K.transpose().apply(unit[row]) * L.apply(unit[:taps]))


@torch.library.custom_op("xdops::tap_rows", mutates_args=())
def operator(values: Sequence[Tensor], layouts: str, row: int, taps: int) -> Tensor:
    """The same from the values of all butterflies of K, L and M, as real pairs (taps, n, 2)."""
    return _pairs(values, layouts, row, taps).clone()


@operator.register_fake
def _(values: Sequence[Tensor], layouts: str, row: int, taps: int) -> Tensor:
    n = 1
    for radix in ast.literal_eval(layouts)[0][0][0]:
        n *= radix
    return values[0].new_empty((taps, n, 2), dtype=torch.promote_types(values[0].dtype, torch.float32))


@torch.library.custom_op("xdops::tap_rows_backward", mutates_args=())
def backward_operator(g: Tensor, values: Sequence[Tensor], layouts: str, row: int, taps: int) -> list[Tensor]:
    """The gradients of all values."""
    with recording():
        learned = [v.detach().requires_grad_() for v in values]
        found = torch.autograd.grad(_pairs(learned, layouts, row, taps), learned, g)
        return [t.clone(memory_format=torch.contiguous_format) for t in found]


@backward_operator.register_fake
def _(g: Tensor, values: Sequence[Tensor], layouts: str, row: int, taps: int) -> list[Tensor]:
    return [v.new_empty(v.shape) for v in values]


def _pairs(values: Sequence[Tensor], layouts: str, row: int, taps: int) -> Tensor:
    return to_pairs(tap_rows(row, taps, ast.literal_eval(layouts), values))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, *ctx.others = inputs
    ctx.save_for_backward(*values)


def _backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    return backward_operator(g, list(ctx.saved_tensors), *ctx.others), None, None, None


operator.register_autograd(_backward, setup_context=_setup)
