"""Which named operations an operation is close to: each is written into its own geometry, channels and weights, and compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.matrices import KMatrix, identity
from xdops.matrices.pairs import to_pairs
from xdops.measuring.tables import html_table, table
from xdops.operations.axes import Axis, TapPositions
from xdops.operations.catalogue.fourier import WholeAxis, count_matrix
from xdops.operations.catalogue.parts import in_dtype, mode_matrix, outer
from xdops.operations.distances.measure import Distance, distance, shown
from xdops.operations.domains import fourier_in
from xdops.operations.operation import XDOperation
from xdops.operations.warmstart import deepen_input, deepen_output, dilated, filter_matrix

_HEAD = ("operation", "operator distance", "architecture distance")
POOL_SIZES = (2, 3, 5)
DILATIONS = (2, 3, 4)


@dataclass(frozen=True)
class Neighbour:
    """A named operation, as near as it can come in the space of the operation asked about."""

    name: str
    distance: Distance
    op: XDOperation


class Neighbours(list[Neighbour]):
    """From the nearest to the farthest; print it."""

    def _rows(self) -> list[tuple[str, ...]]:
        return [(n.name, shown(n.distance.operator), shown(n.distance.architecture)) for n in self]

    def __str__(self) -> str:
        return table(_HEAD, self._rows())

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows(), "nearest named operations, and how far they are")


@checked
def nearest_named(op: XDOperation, count: int | None = None) -> Neighbours:
    """The named operations nearest to `op`, by operator distance relative to `op` itself; all of them without `count`."""
    if count is not None and count < 1:
        raise XDError(f"count={count}", "at least one, or None for all", "count=3")
    found = [Neighbour(name, distance(other, op), other) for name, other in candidates(op)]
    return Neighbours(sorted(found, key=lambda n: n.distance.operator)[:count])


def candidates(op: XDOperation) -> Iterator[tuple[str, XDOperation]]:
    """Convolutions with at most the filter size, dilated ones, depthwise ones, FNOs, pools, skip and zero, in the space of `op`."""
    shape = (op.out_channels // op.groups, op.in_channels // op.groups)
    all_to_all, one_to_one = torch.ones(op.out_channels, shape[1]), torch.eye(*shape).repeat(op.groups, 1)
    kernels = sorted({tuple(min(k, j) for k in op.kernel_size) for j in range(1, max(op.kernel_size) + 1)})
    for kernel in kernels if not op.complex_weight else ():
        label = "x".join(map(str, kernel))
        yield f"convolution {label}", _convolution(op, kernel, 1, all_to_all)
        if all_to_all.shape[1] > 1:
            yield f"depthwise convolution {label}", _convolution(op, kernel, 1, one_to_one)
        for d in DILATIONS:
            if max(kernel) > 1 and all(d * (k - 1) < n for k, n in zip(kernel, op.sizes, strict=True)):
                yield f"convolution {label}, dilation {d}", _convolution(op, kernel, d, all_to_all)
    whole = op.domain == op.sizes  # where alone the frequencies of a DFT are
    if op.complex_weight and op.columns and whole:
        L = [deepen_input(identity(n, radices=r, dtype=torch.float64), op.depth[1]) for n, _, r in _grid(op)]
        yield f"fno, {'x'.join(map(str, op.kernel_size))} modes", _rebuilt(op, L, torch.zeros(op.sizes), all_to_all)
        if all(isinstance(axis, WholeAxis) for axis in op.axes):  # it started as a spectral convolution
            *first, last = op.kernel_size
            L = [deepen_input(count_matrix(n, i == len(first)), op.depth[1]) for i, n in enumerate(op.sizes)]
            label = "x".join(map(str, (*(k // 2 for k in first), last)))
            yield f"spectral convolution, {label} modes", _rebuilt(op, L, torch.zeros(op.sizes), all_to_all)
    elif op.kernel_size[-1] % 2 == 0 and not op.complex_weight and whole:
        modes = (*op.kernel_size[:-1], op.kernel_size[-1] // 2)
        halves = (*(1 for _ in modes[:-1]), 2)
        L = [deepen_input(mode_matrix(n, k, h), op.depth[1]) for n, k, h in zip(op.sizes, modes, halves, strict=True)]
        yield f"fno, {'x'.join(map(str, modes))} modes", _rebuilt(op, L, torch.zeros(op.sizes), all_to_all)
    yield "skip", _pool(op, 1, one_to_one)
    for k in POOL_SIZES:
        if all(k <= n for n in op.sizes):
            yield f"average pool {k}", _pool(op, k, one_to_one)
    yield "zero", _pool(op, 0, one_to_one)


def _grid(op: XDOperation) -> list[tuple[int, bool, tuple[int, ...]]]:
    """Size, whether halved, and radices of every dimension: a domain's order follows from its radices."""
    return [(matrix.n, matrix.shape[0] < matrix.n, matrix.radices) for matrix in op.matrix("M").matrices]


def _taps(op: XDOperation, axis: Axis, k: int, d: int) -> TapPositions:
    """k taps, d apart, centred as a layer with this many outputs would have them."""
    reach = d * (k - 1)
    if op.transposed_weight:
        return TapPositions(k, (reach - axis.growth) // 2, -d)
    return TapPositions(k, axis.pad[0] - (axis.growth + reach) // 2, d)


def _convolution(op: XDOperation, kernel: Sequence[int], d: int, gates: Tensor) -> XDOperation:
    """The convolution of the first taps of the weights; further columns of L are zero."""
    taps = [_taps(op, axis, k, d) for axis, k in zip(op.axes, kernel, strict=True)]
    L = []
    for (n, half, radices), tap in zip(_grid(op), taps, strict=True):
        needed = 3 if any(dilated(t) for t in taps) else 1
        L.append(filter_matrix(n, tap, max(needed, op.depth[1]), half, radices))
    if tuple(kernel) != op.kernel_size:
        L = [matrix.scale_columns((torch.arange(matrix.shape[1]) < k).double()) for matrix, k in zip(L, kernel, strict=True)]
    return _rebuilt(op, L, torch.zeros(op.domain), gates)


def _pool(op: XDOperation, k: int, gates: Tensor) -> XDOperation:
    """Average pooling of k entries at the stride of `op`; k = 1 is skip and k = 0 is zero."""
    into = [fourier_in(*axis).conj() for axis in _grid(op)]
    L = [deepen_input(matrix.scale_rows(torch.zeros(matrix.shape[0])), op.depth[1]) for matrix in into]
    if k == 0:
        return _rebuilt(op, L, torch.zeros(op.domain), gates)
    mean = torch.full((max(k, 1),), 1 / max(k, 1), dtype=torch.float64)
    taps = [_taps(op, axis, k, 1) for axis in op.axes]
    spectra = [filter_matrix(n, tap, 1, half, r).apply(mean) for (n, half, r), tap in zip(_grid(op), taps, strict=True)]
    return _rebuilt(op, L, outer(spectra), gates)


def _rebuilt(op: XDOperation, L: Sequence[KMatrix], b: Tensor, C: Tensor) -> XDOperation:
    """Another operation in the space of `op`: its axes, weights and depth, Fourier K and M, and these L, b, C."""
    dtype = op.weight.dtype
    fourier = [fourier_in(*axis) for axis in _grid(op)]
    M = [deepen_input(into, op.depth[2]) for into in fourier]
    K = [deepen_output(into.adjoint(), op.depth[0]) for into in fourier]
    weight = op.weight.detach().cpu().clone()
    K, L, M = (in_dtype(matrices, dtype) for matrices in (K, L, M))
    return XDOperation(
        op.axes, weight, K, L, M, b=to_pairs(b).to(dtype), C=to_pairs(C).to(dtype),
        groups=op.groups, padding_mode=op.padding_mode, transposed_weight=op.transposed_weight, complex_weight=op.complex_weight,
        weight_columns=op.weight_columns,
    )  # fmt: skip
