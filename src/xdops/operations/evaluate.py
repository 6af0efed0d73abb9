"""Evaluating an XD-operation as a plan says. Every form computes the same function and the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xdops.engine.build import (
    Part,
    chain_layout,
    chain_stages,
    dense_matrices,
    kronecker,
    planar,
    some_columns,
    two_stages,
)
from xdops.engine.forms import taps
from xdops.engine.forms.grouped_taps import DigitReach, GroupedTaps, make_causal_taps
from xdops.engine.forms.spectral import Layout, Spectral, infer
from xdops.engine.plan import CAUSAL_BLOCK, Plan, Problem
from xdops.matrices import KMatrix
from xdops.operations.axes import Axis
from xdops.operations.definition import output_rows, pad, place

if TYPE_CHECKING:
    from xdops.operations.operation import XDOperation


@dataclass(frozen=True)
class Geometry:
    """Where an input of given lengths meets the matrices: the parts of K, L and M in use, per dimension."""

    K: tuple[Part, ...]
    L: tuple[Part, ...]
    M: tuple[Part, ...]
    placed: bool  # inputs are put at their columns first, because they start before column 0


def geometry(op: XDOperation, lengths: Sequence[int]) -> Geometry:
    placed = any(a.wraps and m != a.size for a, m in zip(op.axes, lengths, strict=True))
    rows = output_rows(lengths, op.axes)
    columns = []
    for axis, m in zip(op.axes, lengths, strict=True):
        if placed and axis.wraps:
            columns.append(range(axis.size))
        else:
            columns.append(range(0, (m + sum(axis.padding(m))) * axis.step, axis.step))
    whole = [range(n) for n in op.sizes]
    kernel = op.sizes if op.places_weight else op.kernel_size
    return Geometry(
        tuple(Part(r, n) for r, n in zip(rows, whole, strict=True)),
        tuple(Part(n, range(k)) for n, k in zip(whole, kernel, strict=True)),
        tuple(Part(n, c) for n, c in zip(whole, columns, strict=True)),
        placed,
    )


def problem(op: XDOperation, x: Tensor, as_source: bool) -> Problem:
    """What planning needs to know about this operation and input; `as_source`: its layer may stand in."""
    where = geometry(op, x.shape[2:])
    grad = torch.is_grad_enabled()
    trained = {name.split(".")[0] for name, p in op.architecture() if p.requires_grad} if grad else set()
    return Problem(
        op.sizes,
        tuple(len(p.columns) for p in where.M),
        tuple(len(p.rows) for p in where.K),
        op.sizes if op.places_weight and not op.complex_weight else op.kernel_size,
        x.shape[0],
        op.in_channels,
        op.out_channels,
        op.groups,
        op.depth,
        tuple(_common_radices(op, i) for i in range(len(op.sizes))),
        all(K.layout[0][1] and not M.layout[0][1] for K, M in zip(op.K, op.M, strict=True)),  # type: ignore[index]
        op.b is not None,
        op.C is not None,
        op.complex_weight,
        op.causal is not None,
        as_source,
        bool(trained & {"K", "L", "M"}),
        grad and (bool(trained) or x.requires_grad or op.weight.requires_grad),
        x.dtype,
        x.device.type,
    )


def _common_radices(op: XDOperation, i: int) -> tuple[int, ...] | None:
    """The radices that all butterflies of K and M share in dimension i; spaced inputs are not grouped."""
    layouts = {radices for matrices in (op.K, op.M) for radices, _ in matrices[i].layout}  # type: ignore[union-attr]
    return layouts.pop() if len(layouts) == 1 and op.axes[i].step == 1 else None


def evaluate(op: XDOperation, x: Tensor, plan: Plan, bias: Tensor | None) -> Tensor:
    """The operation on a checked input, output bias included."""
    if plan.form == "source":
        assert op.source is not None
        y = op.source(x, op.weight, bias)
        return y[:, :, : op.axes[0].out(x.shape[2])] if op.causal is not None else y
    if plan.form == "definition":
        return op.evaluate(x, "dense")
    dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    with torch.autocast(x.device.type, enabled=False):
        prepared = Prepared.of(op, x, plan, dtype)
        y = prepared(x)
        return y if bias is None else y + bias.to(dtype).reshape(-1, *(1 for _ in op.axes))


@dataclass
class Prepared:
    """Everything that does not depend on the input's values: matrices built, filters in place."""

    axes: tuple[Axis, ...]
    padding_mode: str
    placed: bool
    dtype: torch.dtype
    run: Callable[[Tensor], Tensor]

    @staticmethod
    def of(op: XDOperation, x: Tensor, plan: Plan, dtype: torch.dtype, merged: bool = False) -> Prepared:
        where = geometry(op, x.shape[2:])
        make = {"taps": _taps, "taps-grouped": _grouped_taps, "joined": _joined}.get(plan.form, _spectral)
        return Prepared(op.axes, op.padding_mode, where.placed, dtype, make(op, where, plan, dtype, merged))

    def __call__(self, x: Tensor) -> Tensor:
        lengths = x.shape[2:]
        x = pad(x.to(self.dtype), self.axes, self.padding_mode)
        if self.placed:
            x = place(x, self.axes, lengths)
        return self.run(x)


def prepare_merged(op: XDOperation, x: Tensor) -> Callable[[Tensor], Tensor]:
    """For inputs like x: the operation with everything precomputed that does not depend on their values."""
    bias = op.bias
    plan = op.plan_for(x)
    if plan.form in ("source", "definition"):
        return lambda x: evaluate(op, x, plan, bias)
    operator = _dense_operator(op, x, plan)
    if operator is not None:
        return operator
    prepared = Prepared.of(op, x, plan, x.dtype, merged=True)
    if bias is None:
        return prepared
    shape = (-1, *(1 for _ in op.axes))
    return lambda x: prepared(x).add_(bias.reshape(shape))


def _dense_operator(op: XDOperation, x: Tensor, plan: Plan) -> Callable[[Tensor], Tensor] | None:
    """One (c_out r..., c_in m...) matrix, where it is smaller than the parts it replaces and no slower to apply."""
    inputs, outputs = x[0].numel(), op.out_channels
    for axis, m in zip(op.axes, x.shape[2:], strict=True):
        outputs *= axis.out(m)
    points = 1
    for n in op.sizes:
        points *= n
    separate = 2 * points * op.weight.shape[0] * op.weight.shape[1] + 4 * sum(n * n for n in op.sizes)
    if inputs * outputs > separate or 2 * inputs * outputs * x.shape[0] > plan.flops:
        return None
    basis = torch.eye(inputs, dtype=x.dtype, device=x.device).view(inputs, *x.shape[1:])
    columns = evaluate(op, basis, op.plan_for(basis), None)  # column i of the operator is its effect on unit vector i
    shape, matrix = columns.shape[1:], columns.reshape(inputs, outputs)
    offset = None if op.bias is None else op.bias.reshape(-1, *(1 for _ in op.axes)).expand(shape).reshape(-1)

    def run(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        y = flat @ matrix if offset is None else torch.addmm(offset, flat, matrix)
        return y.view(x.shape[0], *shape)

    return run


def _matrices(op: XDOperation, name: str) -> list[KMatrix]:
    return [m.matrix for m in getattr(op, name)]


def _planar_b_C(op: XDOperation, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    b = None if op.b is None else op.b.to(dtype).movedim(-1, 0).contiguous()
    C = None if op.C is None else op.C.to(dtype).movedim(-1, 0).unflatten(1, (op.groups, -1)).contiguous()
    return b, C


def _dense(op: XDOperation, where: Geometry, names: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Tensor]:
    """K, L or M of a dimension each, as far as it is in use: planar and dense."""
    chosen = {("L", i): columns for i, columns in enumerate(op.weight_columns)}
    alike = [key for key in names if key not in chosen]
    built = dense_matrices([_matrices(op, name)[i] for name, i in alike], [getattr(where, name)[i] for name, i in alike])
    columns = {(name, i): some_columns(_matrices(op, name)[i], chosen[name, i]) for name, i in names if (name, i) in chosen}
    return dict(zip(alike, built, strict=True)) | columns


def _spectral(op: XDOperation, where: Geometry, plan: Plan, dtype: torch.dtype, merged: bool) -> Callable[[Tensor], Tensor]:
    """Dense or grouped K and M, dense L."""
    w = planar(op.unplaced_filters).to(dtype) if op.complex_weight else op.unplaced_filters.to(dtype)
    names = [(name, i) for name in "KLM" for i in range(len(op.sizes))]
    chained = {key for key in names if key[0] != "L" and plan.grouping[key[1]] is not None}
    tensors = {key: [t] for key, t in _dense(op, where, [key for key in names if key not in chained]).items()}
    layouts = {}
    for name, i in chained:
        matrix, grouping = _matrices(op, name)[i], plan.grouping[i]
        assert grouping is not None
        layouts[name, i] = chain_layout(matrix, grouping, getattr(where, name)[i])
        tensors[name, i] = chain_stages(matrix, grouping, layouts[name, i])
    rows = {name: tuple(layouts.get((name, i)) for i in range(len(op.sizes))) for name in "KLM"}
    layout = Layout(op.groups, rows["K"], rows["L"], rows["M"], plan.by_tap)
    flat = [t.to(dtype) for key in names for t in tensors[key]]
    b, C = _planar_b_C(op, dtype)
    if merged:
        return infer(w, b, C, layout, *flat)
    return lambda x: Spectral.apply(x, w, b, C, layout, *flat)


def _joined(op: XDOperation, where: Geometry, plan: Plan, dtype: torch.dtype, merged: bool) -> Callable[[Tensor], Tensor]:
    """All dimensions as one, of as many points as the grid has: the spectral form of the Kronecker products."""
    dims = len(op.sizes)
    w = (planar(op.unplaced_filters) if op.complex_weight else op.unplaced_filters).to(dtype).flatten(-dims)
    built = _dense(op, where, [(name, i) for name in "KLM" for i in range(dims)])
    joined = [kronecker([built[name, i].to(dtype) for i in range(dims)]) for name in "KLM"]
    layout = Layout(op.groups, (None,), (None,), (None,), by_tap=False)
    b, C = _planar_b_C(op, dtype)
    b = None if b is None else b.flatten(1)
    outputs = [len(part.rows) for part in where.K]
    if merged:
        run = infer(w, b, C, layout, *joined)
        return lambda x: run(x.flatten(2)).unflatten(2, outputs)
    return lambda x: Spectral.apply(x.flatten(2), w, b, C, layout, *joined).unflatten(2, outputs)


def _taps(op: XDOperation, where: Geometry, plan: Plan, dtype: torch.dtype, merged: bool) -> Callable[[Tensor], Tensor]:
    """A matrix per tap, made from dense K, L and M."""
    dims, groups = len(op.sizes), op.groups
    all_parts = [*where.K, *where.L, *where.M]
    tensors = dense_matrices([m for name in "KLM" for m in _matrices(op, name)], all_parts)
    tensors = [t.to(dtype) for t in tensors]
    K, L, M = tensors[:dims], tensors[dims : 2 * dims], tensors[2 * dims :]
    if dims > 1:
        w = op.filters.to(dtype)
        nested = [taps.tap_matrices(*triple) for triple in zip(K, L, M, strict=True)]
        return lambda x: taps.apply_taps(x, w, nested, groups)
    w, left = _all_taps(op, L[0])
    reach = taps.Reach(where.K[0].rows, op.causal, CAUSAL_BLOCK)
    if merged:
        return _fixed_taps(w, lambda part, seen: taps.made(K[0], left, M[0], part, seen), reach, M[0].shape[2], groups)
    return lambda x: taps.Taps.apply(x, w, K[0], left, M[0], groups, reach)


def _grouped_taps(op: XDOperation, where: Geometry, plan: Plan, dtype: torch.dtype, merged: bool) -> Callable[[Tensor], Tensor]:
    """A matrix per tap, made from K and M of depth 1 as two block-diagonal matrices each."""
    grouping, rows, groups = plan.grouping[0], where.K[0].rows, op.groups
    assert grouping is not None
    (K,), (L,), (M,) = (_matrices(op, name) for name in "KLM")
    K2, K1 = two_stages(K.butterflies[0], grouping[0])
    M1, M2 = two_stages(M.butterflies[0], grouping[0])
    low, high = K2.shape[:2]
    w, spectra = _all_taps(op, dense_matrices([L], where.L)[0])
    digits, seen_digits = -(-(rows[-1] + 1) // low), -(-len(where.M[0].columns) // low)
    scaled = K1[:, None] * torch.complex(*spectra.mT).unflatten(1, (high, 1, low)).movedim(0, 1)  # (p, k, l, q)
    B = planar((scaled.flatten(1, 2) @ M2).unflatten(1, (-1, low)).permute(1, 2, 0, 3)).to(dtype)
    M1 = planar(M1[:, :, :seen_digits].permute(1, 2, 0)).to(dtype)
    left = torch.cat((K2[:, :digits].real, -K2[:, :digits].imag), dim=2).to(dtype)
    w, out = w.to(dtype), slice(rows.start, rows.stop, rows.step)
    assert op.causal is not None
    reach = DigitReach(low, op.causal)
    if merged:
        m = len(where.M[0].columns)
        made = left.new_empty(B.shape[1], low, digits, M1.shape[2] * low)
        make_causal_taps(left, B, M1, m, reach, made)
        A = made.transpose(1, 2).flatten(1, 2)[:, out]
        return _fixed_taps(
            w, lambda part, seen: A[:, part, :seen].contiguous(), taps.Reach(rows, op.causal, CAUSAL_BLOCK), m, groups
        )
    return lambda x: GroupedTaps.apply(x, w, left, B, M1, groups, reach)[:, :, out]


def _fixed_taps(
    w: Tensor, block: Callable[[slice, int], Tensor], reach: taps.Reach, m: int, groups: int
) -> Callable[[Tensor], Tensor]:
    """The taps form on matrices that are made, masked and kept: block(part, seen) are the rows of a part, before masking."""
    parts = [(reach.mask_(block(part, seen), part), seen) for part, seen in reach.blocks(m)]
    return lambda x: torch.cat([taps.apply_real_taps(x[:, :, :seen], w, A, groups) for A, seen in parts], dim=2)


def _all_taps(op: XDOperation, L: Tensor) -> tuple[Tensor, Tensor]:
    """Filters and columns of L in one dimension: b is one tap more, and complex gates double the taps."""
    w = op.filters.to(L.dtype)
    b, C = _planar_b_C(op, L.dtype)
    if b is not None:
        L = torch.cat((L, b[..., None]), dim=2)
        w = torch.cat((w, torch.ones_like(w[..., :1])), dim=2)
    if C is not None:  # Re(C z) = Re C Re z - Im C Im z, and Im z = Re(-i z)
        gates = C.flatten(1, 2)[..., None]
        L = torch.cat((L, torch.stack((L[1], -L[0]))), dim=2)
        w = torch.cat((gates[0] * w, -gates[1] * w), dim=2)
    return w, L
