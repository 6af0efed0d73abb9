"""Shift-invariant operations over plain tensors: y[t] = sum_j w_j sum_s a_j[s] x[t + s - row], a_j a row of K diag(L[:, j]) M.

With everything fixed it is a convolution with filters of H taps, sum_j w_j a_j. It is evaluated as such, or, in one dimension, tap
by tap; each directly or through the FFT, as the plan says (`shift_plan`).
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor

from xdops.engine.correlate import correlate_alone, correlate_by_fft
from xdops.engine.description import MatrixLayout
from xdops.engine.evaluation import Operands
from xdops.engine.shift_plan import ShiftPlan, ShiftProblem, make_shift_plan
from xdops.engine.tap_rows import tap_rows
from xdops.matrices.learnable import assemble
from xdops.matrices.pairs import to_complex

CONVS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

#: How the text of a shift-invariant operation begins.
_TAG = "shift "


@dataclass(frozen=True)
class ShiftWindow:
    """One dimension: output t is row `row` of an operation of `size` points, on inputs t * stride - pad[0] and later ones."""

    size: int  # H
    row: int
    stride: int
    pad: tuple[int, int]

    def out(self, m: int) -> int:
        return (m + sum(self.pad) - self.size) // self.stride + 1


@dataclass(frozen=True, kw_only=True)
class ShiftDescription:
    """What the engine has to know beside the tensors; see `Description`."""

    lines: tuple[ShiftWindow, ...]
    K: tuple[MatrixLayout, ...]
    L: tuple[MatrixLayout, ...]
    M: tuple[MatrixLayout, ...]
    kernel: tuple[int, ...]
    groups: int = 1
    padding_mode: str = "zeros"
    plan: str = "auto"

    def channels(self, weight_shape: Sequence[int]) -> tuple[int, int]:
        """(c_in, c_out) of filters of this shape."""
        return weight_shape[1] * self.groups, weight_shape[0]

    def encode(self) -> str:
        """As text; only what a compiler can follow is used."""
        windows = tuple([(w.size, w.row, w.stride, w.pad) for w in self.lines])
        return _TAG + repr((windows, self.K, self.L, self.M, self.kernel, self.groups, self.padding_mode, self.plan))

    @staticmethod
    def encoded(text: str) -> bool:
        """Whether a text is one of these."""
        return text.startswith(_TAG)

    @staticmethod
    @lru_cache(maxsize=1024)
    def decode(text: str) -> "ShiftDescription":
        windows, K, L, M, kernel, groups, padding_mode, plan = ast.literal_eval(text.removeprefix(_TAG))
        lines = tuple(ShiftWindow(*numbers) for numbers in windows)
        return ShiftDescription(lines=lines, K=K, L=L, M=M, kernel=kernel, groups=groups, padding_mode=padding_mode, plan=plan)


def evaluate_shift(d: ShiftDescription, o: Operands, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """As the plan for an input like x says."""
    plan = plan_shift(d, o, x)
    if plan.form.startswith("taps"):
        return by_taps(d, o, x, bias, plan.form == "taps-fft")
    return convolve(d, x, long_filters(d, o), bias, plan.form == "filter-fft")


def plan_shift(d: ShiftDescription, o: Operands, x: Tensor, source: bool = False) -> ShiftPlan:
    """`source`: the layer that the operation started as may stand in."""
    c_in, c_out = d.channels(o.weight.shape)
    problem = ShiftProblem(
        padded=tuple(m + sum(w.pad) for m, w in zip(x.shape[2:], d.lines, strict=True)),
        outputs=tuple(w.out(m) for m, w in zip(x.shape[2:], d.lines, strict=True)),
        strides=tuple(w.stride for w in d.lines),
        sizes=tuple(w.size for w in d.lines),
        kernel=d.kernel,
        batch=x.shape[0],
        c_in=c_in,
        c_out=c_out,
        groups=d.groups,
        plain=o.b is None and o.C is None,
        source=source,
    )
    return make_shift_plan(problem, d.plan)


def rows_of_taps(d: ShiftDescription, o: Operands) -> list[Tensor]:
    """Per dimension the rows a_j of K diag(L[:, j]) M, complex, (taps, H)."""
    rows = []
    for window, taps, matrices in zip(d.lines, d.kernel, _per_dimension(d, o), strict=True):
        layouts, values = [layout for layout, _ in matrices], [v for _, own in matrices for v in own]
        rows.append(tap_rows(window.row, taps, layouts, values))
    return rows


def _per_dimension(d: ShiftDescription, o: Operands) -> list[tuple[tuple[MatrixLayout, list[Tensor]], ...]]:
    """Layout and values of K, L and M, dimension by dimension."""
    matrices, position = [], 0
    for layouts in (d.K, d.L, d.M):
        row = []
        for layout in layouts:
            row.append((layout, o.values[position : position + len(layout)]))
            position += len(layout)
        matrices.append(row)
    return list(zip(*matrices, strict=True))


def row_of_b(d: ShiftDescription, o: Operands) -> Tensor:
    """The same row of K diag(b) M over the whole window, complex, (H...)."""
    assert o.b is not None
    grid = to_complex(o.b)
    for dim, (window, (K, _, M)) in enumerate(zip(d.lines, _per_dimension(d, o), strict=True)):
        k = assemble(*K).to_dense(rows=[window.row])[0]
        grid = ((grid.movedim(dim, -1) * k) @ assemble(*M).to_dense()).movedim(-1, dim)
    return grid


def long_filters(d: ShiftDescription, o: Operands) -> Tensor:
    """The filters of the convolution that this is, (c_out, c_in/groups, H...): Re(C (sum_j w_j a_j + b's row))."""
    rows = rows_of_taps(d, o)
    if len(rows) == 1 and o.b is None and o.C is None:
        return o.weight.to(rows[0].real.dtype) @ rows[0].real
    filters = o.weight.to(rows[0].dtype)
    for dim, a in enumerate(rows, start=2):
        filters = (filters.movedim(dim, -1) @ a).movedim(-1, dim)
    if o.b is not None:
        filters = filters + row_of_b(d, o)
    if o.C is not None:
        filters = filters * to_complex(o.C).reshape(*o.C.shape[:-1], *(1 for _ in d.lines))
    return filters.real


def by_taps(d: ShiftDescription, o: Operands, x: Tensor, bias: Tensor | None, by_fft: bool) -> Tensor:
    """In one dimension: every channel through the k filters a_j, then channels mixed tap by tap. No filter is ever built."""
    (window,), (a,) = d.lines, rows_of_taps(d, o)
    batch, channels, _ = x.shape
    filters = a.real.to(x.dtype)  # (k, H)
    alone = pad_windows(d, x).flatten(0, 1)  # (batch c_in, m)
    z = correlate_by_fft(alone[:, None], filters[:, None], (1,)) if by_fft else correlate_alone(alone, filters)
    z = z[..., :: window.stride]
    z = z.reshape(batch, channels * len(a), z.shape[-1])  # as the flattened weight: channel i's tap j at i k + j
    weight = o.weight.flatten(1).to(x.dtype)
    if d.groups > 1:
        return F.conv1d(z, weight[..., None], bias, groups=d.groups)
    y = weight @ z
    return y if bias is None else y + bias[:, None]


def convolve(d: ShiftDescription, x: Tensor, filters: Tensor, bias: Tensor | None, by_fft: bool = False) -> Tensor:
    """One convolution with the long filters."""
    padded, stride, filters = pad_windows(d, x), tuple([w.stride for w in d.lines]), filters.to(x.dtype)
    if not by_fft:
        return cast(Tensor, CONVS[len(stride)](padded, filters, bias, stride, groups=d.groups))
    y = correlate_by_fft(padded, filters, stride, d.groups)
    return y if bias is None else y + bias.reshape(-1, *(1 for _ in stride))


def pad_windows(d: ShiftDescription, x: Tensor) -> Tensor:
    amounts = [p for w in reversed(d.lines) for p in w.pad]
    return F.pad(x, amounts, mode="constant" if d.padding_mode == "zeros" else d.padding_mode)
