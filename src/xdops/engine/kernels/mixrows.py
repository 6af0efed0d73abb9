"""Generators of straight-line vector code that mixes rows by one small complex matrix, for numba.

A row is `width` real parts, a multiple of 16, and as many imaginary parts, which lie `im` numbers after the real ones; row j of
several starts at `base + j step`. A matrix T (p, r) of literal size is stored as interleaved complex numbers from `at` on. Rows
that are known to be real have one part.

`mix_rows` emits `y_i = sum_j T_ij x_j`; `mix_rows_back` the gradient of x, `sum_i conj(T_ij) g_i`; `rows_gradient` that of T,
the sum of `g_i conj(x_j)` over the columns.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xdops.engine.kernels.vectors import LANES, Emitter

#: Columns come in multiples of this: one cache line of float32.
WIDTH = 16

#: Matrices of up to so many entries stay in registers for all columns.
HELD = 4

Term = tuple[int, Any, Any]  # sign, a, b: a product in a sum


class RowSet:
    """Rows of which real parts, and imaginary ones if parts is 2, are loaded and stored a vector of columns at a time."""

    def __init__(self, emit: Emitter, data: Any, place: Sequence[Any], count: int, parts: int) -> None:
        base, step, self.im = place
        self.emit, self.data, self.parts = emit, data, parts
        self.starts = [base]
        for _ in range(count - 1):
            self.starts.append(emit.builder.add(self.starts[-1], step))

    def _places(self, row: int, column: Any) -> list[Any]:
        real = self.emit.builder.add(self.starts[row], column)
        return [real, self.emit.builder.add(real, self.im)][: self.parts]

    def load(self, row: int, column: Any) -> list[Any]:
        return [self.emit.load(self.data, place) for place in self._places(row, column)]

    def store(self, row: int, column: Any, values: list[Any]) -> None:
        for place, value in zip(self._places(row, column), values, strict=True):
            self.emit.store(self.data, place, value)


def complex_product(a: list[Any], b: list[Any], conjugate: bool) -> tuple[list[Term], list[Term]]:
    """Terms of the real and the imaginary part of a b, or of conj(a) b; a missing part is zero."""
    sign = -1 if conjugate else 1
    real: list[Term] = [(1, a[0], b[0])]
    imaginary: list[Term] = []
    if len(b) == 2:
        imaginary.append((1, a[0], b[1]))
    if len(a) == 2:
        imaginary.append((sign, a[1], b[0]))
        if len(b) == 2:
            real.append((-sign, a[1], b[1]))
    return real, imaginary


def summed(emit: Emitter, terms: list[Term], start: Any = None) -> Any:
    """start + the sum of the terms."""
    total = start
    for sign, a, b in terms:
        if total is None:
            total = emit.multiply(a if sign > 0 else emit.negative(a), b)
        else:
            total = emit.fma(a if sign > 0 else emit.negative(a), b, total)
    return emit.zero() if total is None else total


@contextmanager
def in_columns(emit: Emitter, width: Any) -> Iterator[Any]:
    """A loop over the columns of rows, a vector at a time."""
    zero, lanes = ir.Constant(width.type, 0), ir.Constant(width.type, emit.lanes)
    with cgutils.for_range_slice(emit.builder, zero, width, lanes, inc=True) as (column, _):
        yield column


def _mixing(adjoint: bool) -> Callable[..., Any]:
    """The generator of products with T, or with T^H, which swaps the counts of rows."""

    def emit_mixing(
        typingctx: Any, outputs: Any, inputs: Any, x_parts: Any, y_parts: Any,
        x: Any, x_base: Any, x_step: Any, x_im: Any, y: Any, y_base: Any, y_step: Any, y_im: Any, T: Any, at: Any, width: Any,
    ) -> Any:  # fmt: skip
        p, r, parts_in, parts_out = (t.literal_value for t in (outputs, inputs, x_parts, y_parts))

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = Emitter(context, builder, x.dtype, wide=True)
            x_data, y_data, T_data = (emit.data(signature.args[i], args[i]) for i in (4, 8, 12))
            rows_in = RowSet(emit, x_data, args[5:8], r, parts_in)
            rows_out = RowSet(emit, y_data, args[9:12], p, parts_out)

            def entry(i: int, j: int) -> list[Any]:
                index = 2 * (j * p + i if adjoint else i * r + j)
                return [emit.splat(T_data, args[13], index + part) for part in range(2)]

            held = {(i, j): entry(i, j) for i, j in product(range(p), range(r))} if p * r <= HELD else {}
            with in_columns(emit, args[14]) as column:
                seen = [rows_in.load(j, column) for j in range(r)]
                made = []
                for i in range(p):
                    terms = [complex_product(held.get((i, j)) or entry(i, j), seen[j], adjoint) for j in range(r)]
                    made.append([summed(emit, [t for term in terms for t in term[part]]) for part in range(parts_out)])
                for i in range(p):
                    rows_out.store(i, column, made[i])
            return context.get_dummy_value()

        index = types.intp
        return (
            types.void(outputs, inputs, x_parts, y_parts, x, index, index, index, y, index, index, index, T, index, index),
            codegen,
        )

    return emit_mixing


#: mix_rows(p, r, x_parts, y_parts, x, base, step, im, y, base, step, im, T, at, width): y = T x; x may be y.
mix_rows = intrinsic(prefer_literal=True)(_mixing(adjoint=False))

#: mix_rows_back(r, p, g_parts, x_parts, g, ..., out, ..., T, at, width): out = T^H g; of a real x's gradient the real part.
mix_rows_back = intrinsic(prefer_literal=True)(_mixing(adjoint=True))


@intrinsic(prefer_literal=True)
def rows_gradient(
    typingctx: Any, outputs: Any, inputs: Any, g_parts: Any, x_parts: Any,
    g: Any, g_base: Any, g_step: Any, g_im: Any, x: Any, x_base: Any, x_step: Any, x_im: Any, grad: Any, at: Any, width: Any,
) -> Any:  # fmt: skip
    """grad[i, j] += sum over columns of g_i conj(x_l). Four entries are summed at a time, so grad has room for six numbers more."""
    p, r, parts_g, parts_x = (t.literal_value for t in (outputs, inputs, g_parts, x_parts))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit, eight = Emitter(context, builder, g.dtype, wide=True), Emitter(context, builder, g.dtype)
        g_data, x_data, grad_data = (emit.data(signature.args[i], args[i]) for i in (4, 8, 12))
        rows_g, rows_x = RowSet(emit, g_data, args[5:8], p, parts_g), RowSet(emit, x_data, args[9:12], r, parts_x)
        entries = list(product(range(p), range(r)))
        together = emit.registers // 3 if len(entries) <= emit.registers // 3 else LANES // 2
        for start in range(0, len(entries), together):
            some = entries[start : start + together]
            totals = [emit.variable() for _ in range(2 * len(some))]
            for total in totals:
                builder.store(emit.zero(), total)
            with in_columns(emit, args[14]) as column:
                loaded_g = {i: rows_g.load(i, column) for i in sorted({i for i, _ in some})}
                loaded_x = {j: rows_x.load(j, column) for j in sorted({j for _, j in some})}
                for entry, (i, j) in enumerate(some):
                    for part, terms in enumerate(complex_product(loaded_x[j], loaded_g[i], conjugate=True)):
                        total = totals[2 * entry + part]
                        builder.store(summed(emit, terms, builder.load(total)), total)
            vectors = [builder.load(total) for total in totals]
            vectors += [emit.zero()] * (-len(vectors) % LANES)
            for first in range(0, len(vectors), LANES):
                place = emit.plus(args[13], 2 * start + first)
                sums = emit.sums(vectors[first : first + LANES])
                eight.store(grad_data, place, eight.add(eight.load(grad_data, place), sums))
        return context.get_dummy_value()

    index = types.intp
    given = (outputs, inputs, g_parts, x_parts, g, index, index, index, x, index, index, index, grad, index, index)
    return types.void(*given), codegen
