"""T_j[l] = B_j[l] M for every tap j and low digit l, entry by entry in complex numbers, and the way back. For numba.

    T[p, h, c] = B[p, c] M[p, h, c]
    dB[p, c] = sum over h of dT[p, h, c] conj(M[p, h, c]),      dM[p, h, c] = sum over j, l of dT[p, h, c] conj(B[p, c])

B is planar, (2, taps, ..), its imaginary part any distance after the real one; M is (2, p, h, c), and T (j l, 2, p, h, c). Columns
c come in vectors, the last of which overlaps the one before it: what it stores twice is the same both times. In dM, where every j l
adds to what is there, each vector has a place of its own.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xdops.engine.kernels.compiling import inlined, sources
from xdops.engine.kernels.mixrows import complex_product, summed
from xdops.engine.kernels.native import OWN, Native, integers, next_part, numbers
from xdops.engine.kernels.vectors import LANES, Emitter


class _Column:
    """One vector of columns of a planar array, in every row."""

    def __init__(self, emit: Emitter, data: Any, at: Any, im: Any, step: Any = None) -> None:
        self.emit, self.data, self.starts, self.step = emit, data, (at, emit.builder.add(at, im)), step

    def _places(self, row: Any) -> list[Any]:
        build = self.emit.builder
        return [start if row is None else build.add(start, build.mul(row, self.step)) for start in self.starts]

    def load(self, row: Any = None) -> list[Any]:
        return [self.emit.load(self.data, place) for place in self._places(row)]

    def store(self, values: list[Any], row: Any = None) -> None:
        for place, value in zip(self._places(row), values, strict=True):
            self.emit.store(self.data, place, value)


@intrinsic
def multiply(typingctx, B, b_at, b_im, M, m_at, m_im, out, at, im, rows, step):
    """A vector of B times the same columns of every row of M."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, B.dtype)
        datas = [emit.data(signature.args[i], args[i]) for i in (0, 3, 6)]
        b = _Column(emit, datas[0], *args[1:3]).load()
        of_M, made = _Column(emit, datas[1], args[4], args[5], args[10]), _Column(emit, datas[2], args[7], args[8], args[10])
        with cgutils.for_range(builder, args[9]) as loop:
            terms = complex_product(b, of_M.load(loop.index), conjugate=False)
            made.store([summed(emit, part) for part in terms], loop.index)
        return context.get_dummy_value()

    i = types.intp
    return types.void(B, i, i, M, i, i, out, i, i, i, i), codegen


@intrinsic
def multiply_back(
    typingctx, g, at, im, B, b_at, b_im, M, m_at, m_im, grad_B, db_at, db_im, grad_M, dm_at, dm_im, dm_step, rows, step
):
    """The gradient of a vector of B, and what is added to that of M."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, g.dtype)
        datas = [emit.data(signature.args[i], args[i]) for i in (0, 3, 6, 9, 12)]
        slopes, of_M = _Column(emit, datas[0], args[1], args[2], args[17]), _Column(emit, datas[2], args[7], args[8], args[17])
        to_B, to_M = _Column(emit, datas[3], *args[10:12]), _Column(emit, datas[4], *args[13:16])
        b = _Column(emit, datas[1], *args[4:6]).load()
        sums = [emit.variable(), emit.variable()]
        for total in sums:
            builder.store(emit.zero(), total)
        with cgutils.for_range(builder, args[16]) as loop:
            slope = slopes.load(loop.index)
            for total, part in zip(sums, complex_product(of_M.load(loop.index), slope, conjugate=True), strict=True):
                builder.store(summed(emit, part, builder.load(total)), total)
            parts = zip(complex_product(b, slope, conjugate=True), to_M.load(loop.index), strict=True)
            to_M.store([summed(emit, part, before) for part, before in parts], loop.index)
        to_B.store([builder.load(total) for total in sums])
        return context.get_dummy_value()

    i = types.intp
    return types.void(g, i, i, B, i, i, M, i, i, grad_B, i, i, grad_M, i, i, i, i, i), codegen


@inlined
def sizes_of(row):
    """How many j l, p, h and c; how far imaginary parts of B, and of its gradient, are."""
    at = OWN + 3
    return row[at], row[at + 1], row[at + 2], row[at + 3], row[at + 4], row[at + 5]


@inlined
def forward_at(B, M, T, sizes, p):
    """All of T at p."""
    count, high, rows, low, b_im, _ = sizes
    plane = high * rows * low
    for i in range(count):
        for v in range(0, low, LANES):
            c = min(v, low - LANES)
            at = p * rows * low + c
            multiply(B, (i * high + p) * low + c, b_im, M, at, plane, T, 2 * i * plane + at, plane, rows, low)


@inlined
def backward_at(g, B, M, grad_B, grad_M, sizes, p):
    """B's gradient at p, and M's: `width` columns in every row."""
    count, high, rows, low, b_im, db_im = sizes
    plane, width = high * rows * low, low + -low % LANES
    for i in range(2):
        for place in range((i * high + p) * rows * width, (i * high + p + 1) * rows * width):
            grad_M[place] = 0
    for i in range(count):
        for v in range(0, low, LANES):
            c = min(v, low - LANES)
            at, own, to = p * rows * low + c, (i * high + p) * low + c, p * rows * width + v
            im = high * rows * width
            multiply_back(
                g, 2 * i * plane + at, plane, B, own, b_im, M, at, plane, grad_B, own, db_im, grad_M, to, im, width, rows, low
            )


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of. Every p is a part."""

    def forward(given):
        """Words: B, M, T, and the sizes."""
        _ = kept_under
        row = integers(given)
        B, M, T = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1), numbers(given, row[OWN + 2], 1)
        parts, sizes = row[1], sizes_of(row)
        p = next_part(row)
        while p < parts:
            forward_at(B, M, T, sizes, p)
            p = next_part(row)

    def backward(given):
        """Words: B, M, the gradient of T, the sizes, and the gradients of B and M."""
        _ = kept_under
        row = integers(given)
        B, M, g = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1), numbers(given, row[OWN + 2], 1)
        grad_B, grad_M = numbers(given, row[OWN + 9], 1), numbers(given, row[OWN + 10], 1)
        parts, sizes = row[1], sizes_of(row)
        p = next_part(row)
        while p < parts:
            backward_at(g, B, M, grad_B, grad_M, sizes, p)
            p = next_part(row)

    return Native(forward), Native(backward)


forward, backward = _kernels(sources())
