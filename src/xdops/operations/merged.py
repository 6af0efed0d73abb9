"""An operation fixed for inference, as a plain module: everything that does not depend on the input is computed once and for all.

What comes out knows nothing of K-matrices, plans or gradients of an architecture. It is ordinary real tensor code on buffers, which
pickles, copies, autocasts, compiles and exports like any other module.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from xdops.engine.build import chain_layout, chain_stages, dense_matrices, some_columns
from xdops.engine.chains import ChainLayout
from xdops.engine.evaluate import evaluate
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.taps import CAUSAL_BLOCK, Reach, all_taps, apply_real_taps, made
from xdops.engine.geometry import Part, pad, place
from xdops.engine.mixing import CHUNK, WHOLE, group_first, group_last
from xdops.engine.planar import matmul, multiply, rotate
from xdops.engine.planner import make_plan, possible_plans
from xdops.errors import XDError
from xdops.matrices import KMatrix
from xdops.operations.axes import Axis
from xdops.operations.definition import check_input
from xdops.operations.source import Source

if TYPE_CHECKING:
    from xdops.operations.operation import XDOperation

#: The batch that is planned for: inference has no batch size of its own.
TYPICAL_BATCH = 16


@torch.no_grad()
def merged(op: "XDOperation", input_size: Sequence[int] | None) -> nn.Module:
    """See `XDOperation.merged`."""
    o = op.operands()
    if isinstance(op.source, Source) and op.untouched:
        return op.source.layer(o.weight, op.bias)
    lengths = tuple(axis.longest for axis in op.axes) if input_size is None else tuple(input_size)
    x = o.weight.new_zeros(TYPICAL_BATCH, op.in_channels, *lengths)
    check_input(x, op.in_channels, op.axes)
    e = Evaluation(op.description(), o, x, x.dtype)
    if input_size is not None and (whole := _one_matrix(op, e)) is not None:
        return whole
    if op.causal is not None:
        return MergedTaps(op.axes, op.padding_mode, e, op.bias)
    work = e.workload()
    plans = [make_plan(work, name) for name in ("spectral", "grouped") if name in possible_plans(work)]
    cheapest = min(plans, key=lambda plan: plan.seconds)
    return MergedSpectrum(op.axes, op.padding_mode, e, cheapest.grouping, op.bias)


def _one_matrix(op: "XDOperation", e: Evaluation) -> nn.Module | None:
    """One (c_out r..., c_in m...) matrix, where it is smaller than the parts it replaces and no slower to apply."""
    inputs, outputs = e.x[0].numel(), op.out_channels * math.prod(map(len, e.where.rows))
    points = math.prod(A.shape[0] for A in e.M)
    separate = 2 * points * op.out_channels * op.in_channels // op.groups + 4 * sum(n * n for n in op.sizes)
    if inputs * outputs > separate or 2 * inputs * outputs * TYPICAL_BATCH > make_plan(e.workload()).flops:
        return None
    basis = torch.eye(inputs, dtype=e.dtype, device=e.x.device).view(inputs, *e.x.shape[1:])
    columns = evaluate(e.description, e.operands, basis, e.dtype)  # column i of the operator is its effect on unit vector i
    return DenseOperator(columns, e.x.shape[1:], op.bias)


class DenseOperator(nn.Module):
    """One matrix for inputs of one size: y = A x + bias, everything flattened."""

    matrix: Tensor
    offset: Tensor

    def __init__(self, columns: Tensor, inputs: Sequence[int], bias: Tensor | None) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(columns.shape[1:])
        self.register_buffer("matrix", columns.flatten(1).clone())
        zero = columns.new_zeros(self.outputs[0]) if bias is None else bias
        self.register_buffer("offset", zero[:, None].expand(-1, math.prod(self.outputs[1:])).flatten().clone())

    def forward(self, input: Tensor) -> Tensor:
        if tuple(input.shape[1:]) != self.inputs:
            raise XDError(
                f"an input of shape {tuple(input.shape)}",
                f"(batch, {', '.join(map(str, self.inputs))}), for which the operation was merged",
                "op.merged() without input_size takes all sizes that the operation takes",
            )
        return torch.addmm(self.offset, input.flatten(1), self.matrix).unflatten(1, self.outputs)


class _Merged(nn.Module):
    """What both kinds below share: inputs are checked, padded and placed; the bias is added."""

    bias: Tensor | None

    def __init__(self, axes: Sequence[Axis], padding_mode: str, e: Evaluation, bias: Tensor | None) -> None:
        super().__init__()
        self.axes, self.padding_mode, self.groups = tuple(axes), padding_mode, e.groups
        self.in_channels, self.out_channels = e.c_in, e.c_out
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def forward(self, input: Tensor) -> Tensor:
        check_input(input, self.in_channels, self.axes)
        lengths = input.shape[2:]
        x = pad(input, self.axes, self.padding_mode)
        if any(axis.wraps and m != axis.size for axis, m in zip(self.axes, lengths, strict=True)):
            x = place(x, self.axes, lengths)
        y = self.fixed(x, lengths)
        return y if self.bias is None else y + self.bias.reshape(-1, *(1 for _ in self.axes))

    def fixed(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        raise NotImplementedError


class MergedTaps(_Merged):
    """One dimension, real filters: y = sum_j w_j (A_j x), the matrices A_j masked if it is causal, in blocks of rows."""

    filters: Tensor

    def __init__(self, axes: Sequence[Axis], padding_mode: str, e: Evaluation, bias: Tensor | None) -> None:
        super().__init__(axes, padding_mode, e, bias)
        n = e.K[0].shape[0]
        rows = range(0, n, axes[0].stride)
        parts = [Part(rows, range(e.K[0].shape[1])), e.part("L", 0), Part(range(e.M[0].shape[0]), range(n))]
        K, L, M = dense_matrices([e.K[0], e.L[0], e.M[0]], parts)
        w, L = all_taps(e, L)
        self.register_buffer("filters", w.clone())
        reach = Reach(rows, e.causal, CAUSAL_BLOCK)
        self.blocks = []
        for i, (part, seen) in enumerate(reach.blocks(n)):
            self.register_buffer(f"taps_{i}", reach.mask_(made(K, L, M, part, seen), part).to(e.dtype))
            self.blocks.append((part.start, seen))

    def fixed(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        axis, m = self.axes[0], lengths[0]
        outputs, columns = axis.out(m), axis.columns(m)
        parts = []
        for i, (start, seen) in enumerate(self.blocks):
            if start < outputs:
                A = getattr(self, f"taps_{i}")[:, : outputs - start, columns.start : min(seen, columns.stop) : columns.step]
                parts.append(apply_real_taps(x[:, :, : A.shape[2]], self.filters, A, self.groups))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


class MergedSpectrum(_Merged):
    """Into the domain, mix channels at every point, and back, with matrices and filters that are fixed."""

    K: nn.ModuleList
    M: nn.ModuleList
    left: Tensor
    right: Tensor
    added: Tensor | None
    gates: Tensor | None

    def __init__(
        self,
        axes: Sequence[Axis],
        padding_mode: str,
        e: Evaluation,
        grouping: Sequence[tuple[int, ...] | None],
        bias: Tensor | None,
    ) -> None:
        super().__init__(axes, padding_mode, e, bias)
        for name, matrices in (("K", e.K), ("M", e.M)):
            setattr(self, name, nn.ModuleList(FixedMatrix(A, cut, e.dtype) for A, cut in zip(matrices, grouping, strict=True)))
        self.domain = tuple(A.shape[0] for A in e.M)
        left, right, b = _filters(e)
        points = math.prod(self.domain)
        pairs = e.c_out * e.c_in // e.groups
        few = 2 * points * pairs <= WHOLE
        self.step = self.domain[0] if few else max(1, CHUNK * self.domain[0] // (2 * points * pairs))
        self.register_buffer("left", left)
        self.register_buffer("right", right)
        self.register_buffer("added", b)
        self.register_buffer("gates", e.C)
        if few:  # all filters, made once: an empty left says so
            made = self._made(slice(0, self.domain[0]))
            self.register_buffer("left", left[:, :0])
            self.register_buffer("right", made)
            self.register_buffer("added", None)
            self.register_buffer("gates", None)

    def _made(self, part: slice) -> Tensor:
        """The filters C (L w + b) at some points of the first dimension, as (2, points g, c_in/g, c_out/g)."""
        w = matmul(self.left[:, part], self.right)  # (2, p, rest g c_in c_out)
        w = w.unflatten(2, (-1, self.groups, self.in_channels // self.groups, self.out_channels // self.groups))
        if self.added is not None:
            w = w + self.added[:, part, :, None, None, None]
        if self.gates is not None:
            w = multiply(w, self.gates.mT[:, None, None])
        return w.flatten(1, 3)

    def fixed(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        batch, last = x.shape[0], len(self.axes) - 1
        K: Any = self.K
        M: Any = self.M
        columns = [axis.columns(m) for axis, m in zip(self.axes, lengths, strict=True)]
        rows = [axis.rows(m) for axis, m in zip(self.axes, lengths, strict=True)]
        t = x.reshape(1, -1, x.shape[-1])
        for i in range(last, -1, -1):
            t = M[i].enter(t, columns[i])
            t = t if i == 0 else t.reshape(2, -1, len(columns[i - 1]))
        x_hat = group_first(t.reshape(2, math.prod(self.domain), batch, self.in_channels), self.groups)
        parts, per = [], x_hat.shape[1] // self.domain[0]
        for start in range(0, self.domain[0], self.step):
            part = slice(start, min(self.domain[0], start + self.step))
            w = self.right if self.left.shape[1] == 0 else self._made(part)
            x_part = x_hat[:, part.start * per : part.stop * per]
            real = torch.baddbmm(torch.bmm(x_part[0], w[0]), x_part[1], w[1], alpha=-1)
            parts.append(torch.stack((real, torch.baddbmm(torch.bmm(x_part[0], w[1]), x_part[1], w[0]))))
        t = group_last(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1), self.groups)
        for i in range(last + 1):
            t = K[i].leave(t.reshape(2, self.domain[i], -1), rows[i], real=i == last)
        return t.reshape(batch, self.out_channels, *map(len, rows))


def _filters(e: Evaluation) -> tuple[Tensor, Tensor, Tensor | None]:
    """L of dimension 1 (2, n_1, k_1); filters with all others in the domain, (2, k_1, rest g c_in c_out); b (2, n_1, rest)."""
    if e.operands.columns:
        L = [some_columns(A, columns) for A, columns in zip(e.L, e.operands.columns, strict=True)]
    else:
        L = dense_matrices(e.L, [e.part("L", i) for i in range(e.dims)])
    L = [A.to(e.dtype) for A in L]
    w = e.taps if e.description.complex_weight else torch.stack((e.taps, torch.zeros_like(e.taps)))
    w = w.unflatten(1, (e.groups, -1)).permute(0, *range(4, 4 + e.dims), 1, 3, 2)  # (2, k_1..k_N, g, c_in/g, c_out/g)
    for i in range(1, e.dims):
        moved = w.movedim(1 + i, 1)
        w = matmul(L[i], moved.flatten(2)).unflatten(2, moved.shape[2:]).movedim(1, 1 + i)
    b = e.b
    return L[0], w.flatten(2).contiguous(), None if b is None else b.flatten(2) if e.dims > 1 else b[..., None]


class FixedMatrix(nn.Module):
    """A complex matrix in planar form, dense or as stages that mix one digit each (see `engine.chains`)."""

    stage_0: Tensor

    def __init__(self, matrix: KMatrix, cut: tuple[int, ...] | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = matrix.shape
        whole = Part(range(self.shape[0]), range(self.shape[1]))
        self.layout: ChainLayout | None = None if cut is None else chain_layout(matrix, cut, whole)
        if cut is None or self.layout is None:
            stages = dense_matrices([matrix], [whole])
        else:
            stages = chain_stages(matrix, cut, self.layout)
        self.count = len(stages)
        for i, stage in enumerate(stages):
            self.register_buffer(f"stage_{i}", stage.to(dtype).clone())

    def enter(self, x: Tensor, columns: range) -> Tensor:
        """x (1, q, m) real or (2, q, m) -> (2, n, q)."""
        if self.layout is None:
            A = self.stage_0[:, :, columns.start : columns.stop : columns.step]
            y = torch.matmul(A.reshape(-1, A.shape[2]), x[0].mT)
            if x.shape[0] == 2:
                y = torch.addmm(y, rotate(A).reshape(-1, A.shape[2]), x[1].mT)
            return y.unflatten(0, (2, -1))
        return self._stages(nn.functional.pad(x, (0, self.shape[1] - x.shape[2])).mT, parts=2)

    def leave(self, y: Tensor, rows: range, real: bool) -> Tensor:
        """y (2, n, q) -> (1, q, r), the real part, or (2, q, r)."""
        if self.layout is None:
            A = self.stage_0[:, rows.start : rows.stop : rows.step]
            flat = y.flatten(0, 1).t()
            parts = [flat @ torch.cat((A[0], -A[1]), dim=1).t()]
            if not real:
                parts.append(flat @ torch.cat((A[1], A[0]), dim=1).t())
            return torch.stack(parts)
        return self._stages(y, parts=1 if real else 2)[:, rows.start : rows.stop : rows.step].mT

    def _stages(self, t: Tensor, parts: int) -> Tensor:
        """(1 or 2, n, q) -> (parts, n, q). A digit that was mixed comes last in memory, so that nothing is copied in between."""
        assert self.layout is not None
        t = t.unflatten(1, self.layout.digits)
        order = list(range(len(self.layout.digits)))
        for i, digit in enumerate(self.layout.sequence):
            rest = [d for d in order if d != digit]
            natural = sorted(rest)
            T = getattr(self, f"stage_{i}")
            T = T.permute(0, *(1 + natural.index(d) for d in rest), T.dim() - 2, T.dim() - 1)
            x = t.movedim(1 + order.index(digit), -2)
            real = T[0] @ x[0] if x.shape[0] == 1 else T[0] @ x[0] - T[1] @ x[1]
            if i == self.count - 1 and parts == 1:
                t = real[None]
            else:
                t = torch.stack((real, T[1] @ x[0] if x.shape[0] == 1 else T[0] @ x[1] + T[1] @ x[0]))
            order = [*rest, digit]
        t = t.permute(0, *(1 + order.index(d) for d in range(len(order))), t.dim() - 1)
        return t.flatten(1, -2)
