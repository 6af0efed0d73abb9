"""How far apart two operations are: by their architecture parameters, and by what they do to an input."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.arguments import checked
from xdops.errors import XDError, several
from xdops.matrices.pairs import to_pairs
from xdops.measuring.tables import html_table
from xdops.operations.axes import Axis
from xdops.operations.operation import XDOperation

#: Operators with at most this many entries are compared entry by entry, larger ones on random inputs.
EXACT_UP_TO = 1 << 22
#: Inputs drawn where the operator is too large; the estimate's relative error is about 1/sqrt(samples * outputs).
SAMPLES = 16


@dataclass(frozen=True)
class Distance:
    """Both are relative to the second operation, the reference."""

    architecture: float | None  # |a - a'| / |a'| over K, L, M, b, C; None where the parameters have different shapes
    operator: float  # |A - A'|_F / |A'|_F, the linear maps of the same weights w; infinite if only A' is zero
    exact: bool  # whether `operator` is over all entries, or estimated from random inputs

    def _repr_html_(self) -> str:
        how = "over all entries" if self.exact else "estimated from random inputs"
        return html_table(
            ("architecture", "operator"), [(shown(self.architecture), shown(self.operator))], f"relative distance, {how}"
        )


def shown(value: float | None) -> str:
    """A distance in a table."""
    return "-" if value is None else f"{value:.3g}"


@checked
def distance(op: XDOperation, reference: XDOperation, input_size: Sequence[int] | None = None) -> Distance:
    """From `op` to `reference`, with the filters of `op` in both (zero-padded or cut to the taps that the reference has).

    Output biases are left out. `input_size` defaults to the largest input that both take.
    """
    size = tuple(input_size) if input_size is not None else _common_size(op, reference)
    one, two = _with_filters_of(op, op), _with_filters_of(reference, op)
    x, exact = _inputs(op, reference, size)
    difference = scale = 0.0
    with torch.no_grad():
        for batch in x.split(256):
            y, y_reference = (_evaluate(o, batch) for o in (one, two))
            difference += float((y - y_reference).square().sum())
            scale += float(y_reference.square().sum())
    return Distance(architecture_distance(op, reference), _relative(difference**0.5, scale**0.5), exact)


def architecture_distance(op: XDOperation, reference: XDOperation) -> float | None:
    """Relative Euclidean distance of K, L, M, b and C; an absent b counts as 0, an absent C as 1."""
    a, a_reference = architecture_tensors(op), architecture_tensors(reference)
    if [t.shape for t in a] != [t.shape for t in a_reference] or _layout(op) != _layout(reference):
        return None
    pairs = zip(a, a_reference, strict=True)
    difference = sum(float((t - u.to(t)).square().sum()) for t, u in pairs)
    return _relative(difference**0.5, sum(float(u.square().sum()) for u in a_reference) ** 0.5)


def architecture_tensors(op: XDOperation) -> list[Tensor]:
    """The numbers of K, L, M, b, C in float64, in that order, whether trained, fixed or absent."""
    matrices = [b.values for name in "KLM" for m in op.matrix(name).matrices for b in m.butterflies]
    b = torch.zeros(*op.domain, 2) if op.b is None else op.b
    C = to_pairs(torch.ones(op.out_channels, op.in_channels // op.groups)) if op.C is None else op.C
    return [t.detach().to("cpu", torch.float64) for t in (*matrices, b, C)]


def _layout(op: XDOperation) -> list[tuple[tuple[int, ...], bool, tuple[int, int]]]:
    return [(b.radices, b.increasing, b.shape) for name in "KLM" for m in op.matrix(name).matrices for b in m.butterflies]


def _relative(difference: float, scale: float) -> float:
    if scale == 0:
        return 0.0 if difference == 0 else float("inf")
    return difference / scale


def _evaluate(op: XDOperation, x: Tensor) -> Tensor:
    """By the definition, so that no faster form's rounding counts as a distance."""
    return op.evaluate(x, "dense" if max(op.sizes) <= 1024 else "staged")


def _with_filters_of(op: XDOperation, source: XDOperation) -> XDOperation:
    """A copy of `op` in float64 on the CPU, without output bias, with the filters of `source`."""
    spec = [(o.in_channels, o.out_channels, o.groups, o.transposed_weight, o.complex_weight, len(o.axes)) for o in (op, source)]
    if spec[0] != spec[1]:
        names = "channels in, channels out, groups, transposed filters, complex filters, dimensions"
        raise XDError(f"operations with different ({names}): {spec[1]} and {spec[0]}", "the same", "an operation of the same kind")
    new = copy.deepcopy(op).to("cpu", torch.float64)
    new.bias = None
    weight = torch.zeros_like(new.weight.data)
    common = tuple(slice(0, min(k, j)) for k, j in zip(op.kernel_size, source.kernel_size, strict=True))
    weight[(slice(None), slice(None), *common)] = source.weight.detach().to(weight)[(slice(None), slice(None), *common)]
    new.weight.data = weight
    return new


def _common_size(op: XDOperation, reference: XDOperation) -> tuple[int, ...]:
    """Per dimension, the largest length that both accept and map to equally many outputs."""
    if len(op.axes) != len(reference.axes):
        raise XDError(f"operations in {len(op.axes)} and {len(reference.axes)} dimensions", "the same number", "equal dimensions")
    sizes = []
    for dim, (a, b) in enumerate(zip(op.axes, reference.axes, strict=True)):
        fits = [m for m in range(1, min(a.size, b.size) + 1) if _accepts(a, m) and _accepts(b, m) and a.out(m) == b.out(m)]
        if not fits:
            raise XDError(
                f"operations whose outputs differ in length in spatial dimension {dim}, whatever the input",
                "a length of input for which they agree",
                "equal strides and padding",
            )
        sizes.append(fits[-1])
    return tuple(sizes)


def _accepts(axis: Axis, m: int) -> bool:
    try:
        axis.check(m, 0)
    except XDError:
        return False
    return True


def _inputs(op: XDOperation, reference: XDOperation, size: Sequence[int]) -> tuple[Tensor, bool]:
    """All unit inputs where that is few, else seeded random ones: E|A x|^2 = |A|_F^2 for standard normal x."""
    if len(size) != len(op.axes):
        raise XDError(
            f"input_size={tuple(size)} for an operation in {several(len(op.axes), 'dimension')}",
            "a length for each",
            "input_size=None",
        )
    entries, outputs = op.in_channels, op.out_channels
    for dim, (m, a, b) in enumerate(zip(size, op.axes, reference.axes, strict=True)):
        a.check(m, dim)
        b.check(m, dim)
        if a.out(m) != b.out(m):
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}, which gives {a.out(m)} and {b.out(m)} outputs",
                "equally many from both operations",
                "input_size=None, or equal strides and padding",
            )
        entries, outputs = entries * m, outputs * a.out(m)
    if entries * outputs <= EXACT_UP_TO:
        return torch.eye(entries, dtype=torch.float64).reshape(entries, op.in_channels, *size), True
    generator = torch.Generator().manual_seed(0)
    return torch.randn(SAMPLES, op.in_channels, *size, dtype=torch.float64, generator=generator), False
