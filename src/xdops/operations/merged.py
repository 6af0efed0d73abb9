"""An operation fixed for inference, as a plain module: everything that does not depend on the input is computed once and for all.

What comes out knows nothing of K-matrices or plans: buffers, and ordinary real tensor code on them, which pickles, copies,
autocasts, compiles and exports like any other module. Where nobody traces it, the engine's own passes go over the same buffers,
which is faster.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from xdops.engine.build import dense_matrices, kronecker, some_columns
from xdops.engine.evaluate import evaluate
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.taps import CAUSAL_BLOCK, Reach, all_taps, apply_real_taps, made
from xdops.engine.geometry import Part, pad, place
from xdops.engine.mixing import group_first, group_last
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.planar import matmul, multiply
from xdops.engine.planner import make_plan, possible_plans
from xdops.engine.spectrum import Spectrum
from xdops.engine.tracing import is_traced
from xdops.engine.workspace import workspace
from xdops.errors import XDError
from xdops.operations.architecture import FixedGeometry
from xdops.operations.axes import Axis
from xdops.operations.definition import check_device, check_dtype, check_input
from xdops.operations.fixed import GridRanges, dense_matrix, matrix_modules, matrix_of, points_in
from xdops.operations.graph_nodes import as_node
from xdops.operations.source import Source

if TYPE_CHECKING:
    from xdops.operations.operation import XDOperation

#: The batch that is planned for: inference has no batch size of its own.
TYPICAL_BATCH = 64


@torch.no_grad()
def merged(op: "XDOperation", input_size: Sequence[int] | None) -> nn.Module:
    """See `XDOperation.merged`."""
    o = op.operands()
    if isinstance(op.source, Source) and op.untouched:
        return op.source.layer(o.weight, op.bias)
    lengths = tuple(axis.longest for axis in op.axes) if input_size is None else tuple(input_size)
    x = o.weight.new_zeros(TYPICAL_BATCH, op.in_channels, *lengths)
    check_input(x, op.in_channels, op.axes, op.padding_mode)
    e = Evaluation(op.description(), o, x, x.dtype)
    if input_size is not None and (whole := _one_matrix(op, e)) is not None:
        return whole
    if op.causal is not None:
        return MergedTaps(op.axes, op.padding_mode, e, op.bias)
    work = e.workload()
    plans = [make_plan(work, name) for name in ("spectral", "joined", "grouped", "grouped3") if name in possible_plans(work)]
    cheapest = min(plans, key=lambda plan: plan.seconds)
    return MergedSpectrum(op.axes, op.padding_mode, e, cheapest, op.bias)


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


class DenseOperator(FixedGeometry):
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
        if isinstance(input, Proxy):
            return as_node(self, input)
        if tuple(input.shape[1:]) != self.inputs:
            raise XDError(
                f"an input of shape {tuple(input.shape)}",
                f"(batch, {', '.join(map(str, self.inputs))}), for which the operation was merged",
                "op.merged() without input_size takes all sizes that the operation takes",
            )
        check_device(input, self.matrix)
        check_dtype(input, self.matrix.dtype)
        return torch.addmm(self.offset, input.flatten(1), self.matrix).unflatten(1, self.outputs)


class _Merged(FixedGeometry):
    """What both kinds below share: inputs are checked, padded and placed; the bias is added."""

    bias: Tensor | None

    def __init__(self, axes: Sequence[Axis], padding_mode: str, e: Evaluation, bias: Tensor | None) -> None:
        super().__init__()
        self.axes, self.padding_mode, self.groups = tuple(axes), padding_mode, e.groups
        self.in_channels, self.out_channels = e.c_in, e.c_out
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return as_node(self, input)
        check_input(input, self.in_channels, self.axes, self.padding_mode)
        check_device(input, self.weights())
        check_dtype(input, self.weights().dtype)
        lengths = input.shape[2:]
        x = pad(input, self.axes, self.padding_mode)
        if any(axis.wraps and m != axis.size for axis, m in zip(self.axes, lengths, strict=True)):
            x = place(x, self.axes, lengths)
        y = self.fixed(x, lengths)
        return y if self.bias is None else y + self.bias.reshape(-1, *(1 for _ in self.axes))

    def fixed(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        raise NotImplementedError

    def weights(self) -> Tensor:
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
            self.register_buffer(f"taps_{i}", reach.mask_(made(K, L, M, part, seen, workspace()), part).to(e.dtype, copy=True))
            self.blocks.append((part.start, seen))

    def weights(self) -> Tensor:
        return self.filters

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
    taps: Tensor
    b: Tensor | None
    C: Tensor | None

    def __init__(self, axes: Sequence[Axis], padding_mode: str, e: Evaluation, plan: Plan, bias: Tensor | None) -> None:
        super().__init__(axes, padding_mode, e, bias)
        joined = plan.form == "joined"
        self.together = e.dims if joined else 1  # dimensions that one matrix goes along
        for name, matrices in (("K", e.K), ("M", e.M)):
            fixed = [dense_matrix(matrices, e.dtype)] if joined else matrix_modules(matrices, plan.grouping, e.dtype)
            setattr(self, name, nn.ModuleList(fixed))
        if e.operands.columns:
            L = [some_columns(A, columns) for A, columns in zip(e.L, e.operands.columns, strict=True)]
        else:
            L = dense_matrices(e.L, [e.part("L", i) for i in range(e.dims)])
        L = [kronecker(L)] if joined else L
        self.count = len(L)
        for i, A in enumerate(L):
            self.register_buffer(f"L_{i}", A.to(e.dtype).clone())
        b = e.b
        self.register_buffer("taps", (e.taps.flatten(-e.dims) if joined else e.taps).detach().clone())
        self.register_buffer("b", None if b is None else (b.flatten(1) if joined else b).clone())
        self.register_buffer("C", e.C)
        self.by_tap = plan.by_tap and not joined

    def weights(self) -> Tensor:
        return self.taps

    def fixed(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        traced = is_traced(x)
        if not traced and x.shape[0] == 0:  # a batch of one that nobody looks at
            return self.fixed(torch.cat((x, x.new_zeros(1, *x.shape[1:]))), lengths)[:0]
        pairs = list(zip(self.axes, lengths, strict=True))
        along = range(0, len(pairs), self.together)
        columns = [[axis.columns(m) for axis, m in pairs[i : i + self.together]] for i in along]
        rows = [[axis.rows(m) for axis, m in pairs[i : i + self.together]] for i in along]
        L = [getattr(self, f"L_{i}") for i in range(self.count)]
        plain = traced or torch.is_autocast_enabled(x.device.type)
        y = self._plain(x, L, rows, columns) if plain else self._fast(x, L, rows, columns)
        return y.reshape(x.shape[0], self.out_channels, *(axis.out(m) for axis, m in pairs))

    def _fast(self, x: Tensor, L: Sequence[Tensor], rows: Sequence[GridRanges], columns: Sequence[GridRanges]) -> Tensor:
        """As the engine does it, in memory that is used again."""
        K = [matrix_of(A).rows_in_use(r) for A, r in zip(self.K, rows, strict=True)]
        M = [matrix_of(A).columns_in_use(c) for A, c in zip(self.M, columns, strict=True)]
        spectrum = Spectrum(self.groups, tuple(A.layout for A in K), tuple(A.layout for A in M), self.by_tap)
        tensors = [*(t for A in K for t in A.tensors), *L, *(t for A in M for t in A.tensors)]
        x = x.flatten(2) if self.together > 1 else x
        return compute(spectrum, x, self.taps, self.b, self.C, *tensors)

    def _plain(self, x: Tensor, L: Sequence[Tensor], rows: Sequence[GridRanges], columns: Sequence[GridRanges]) -> Tensor:
        """Step by step."""
        domain, last = [A.shape[1] for A in L], len(L) - 1
        t = x.reshape(1, -1, points_in(columns[last]))
        for i in range(last, -1, -1):
            t = matrix_of(self.M[i]).enter(t, columns[i])
            t = t if i == 0 else t.reshape(2, -1, points_in(columns[i - 1]))
        x_hat = group_first(t.reshape(2, math.prod(domain), x.shape[0], self.in_channels), self.groups)
        t = group_last(_mix(x_hat, self._filters(L)), self.groups)
        for i in range(last + 1):
            t = matrix_of(self.K[i]).leave(t.reshape(2, domain[i], -1), rows[i], real=i == last)
        return t

    def _filters(self, L: Sequence[Tensor]) -> Tensor:
        """C (L w + b) at every point, as (2, points g, c_in/g, c_out/g)."""
        real = self.taps.dim() < 3 + len(L)
        w = self.taps[None] if real else self.taps
        w = w.unflatten(1, (self.groups, -1)).permute(0, *range(4, 4 + len(L)), 1, 3, 2)  # (1 or 2, k_1..k_N, g, c_in/g, c_out/g)
        for i, A in enumerate(L):
            moved = w.movedim(1 + i, 1)
            product = A @ moved.flatten(2) if real and i == 0 else matmul(A, moved.flatten(2))
            w = product.unflatten(2, moved.shape[2:]).movedim(1, 1 + i)
        if self.b is not None:
            w = w + self.b[..., None, None, None]
        if self.C is not None:
            gates = self.C.transpose(-2, -1)
            w = multiply(w, gates.reshape(2, *(1 for _ in L), *gates.shape[1:]))
        return w.flatten(1, -3)


def _mix(x: Tensor, w: Tensor) -> Tensor:
    """x w at every point: x (2, p, batch, c_in), w (2, p, c_in, c_out)."""
    (a, b), (c, d) = x, w
    return torch.stack((torch.baddbmm(torch.bmm(a, c), b, d, alpha=-1), torch.baddbmm(torch.bmm(a, d), b, c)))
