"""Products with complex matrices of any size, a tile of a few outputs at a time. For numba.

Rows lie as in `mixrows`. A tile's outputs stay in registers while all inputs pass by, so that a number that is loaded is used
several times; of the matrix's gradient a tile of entries stays there while all columns pass by. A matrix T[i, j] is stored as
interleaved complex numbers, row after row.

The gradient of a factor's small matrices is summed over the columns of a vector, a few entries at a time. That of a large matrix is
not: its inputs are turned around first, so that a vector holds one column of several of them. It is kept as real parts (p, line)
and then as many imaginary ones, where a line is the next multiple of eight.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xdops.engine.kernels.compiling import inlined, spliced
from xdops.engine.kernels.mixrows import RowSet, complex_product, in_columns, summed
from xdops.engine.kernels.vectors import LANES, Emitter, register_bits, turn

#: Bytes of a vector register.
REGISTER = register_bits() // 8

#: Outputs of a tile.
TILE = 4

#: Entries of a row that are summed at a time.
ENTRIES = LANES // 2

#: Rows of a large gradient's tile, and vectors of a line: real and imaginary sums take as many registers as can be spared.
ROWS, VECTORS = 4, 2 if register_bits() == 512 else 1


@intrinsic(prefer_literal=True)
def product_tile(
    typingctx: Any, outputs: Any, x_parts: Any, y_parts: Any, adjoint: Any,
    x: Any, x_base: Any, x_step: Any, x_im: Any, y: Any, y_base: Any, y_step: Any, y_im: Any,
    T: Any, at: Any, i_step: Any, j_step: Any, inputs: Any, width: Any,
) -> Any:  # fmt: skip
    """y_i = sum_j T[at + i i_step + j j_step] x_j, or with its conjugate, for a literal number of outputs i and all inputs j."""
    p, parts_in, parts_out, conjugate = (t.literal_value for t in (outputs, x_parts, y_parts, adjoint))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, x.dtype, wide=True)
        x_data, y_data, T_data = (emit.data(signature.args[i], args[i]) for i in (4, 8, 12))
        x_base, x_step, x_im = args[5:8]
        at, i_step, j_step, inputs, width = args[13:]
        rows_out = RowSet(emit, y_data, args[9:12], p, parts_out)
        totals = [[emit.variable() for _ in range(parts_out)] for _ in range(p)]
        seen, entry = (cgutils.alloca_once(builder, at.type) for _ in range(2))
        rows_of_T = [emit.times(i_step, i) for i in range(p)]
        with in_columns(emit, width) as column:
            for total in (total for row in totals for total in row):
                builder.store(emit.zero(), total)
            builder.store(builder.add(x_base, column), seen)
            builder.store(at, entry)
            with cgutils.for_range(builder, inputs):
                real, place = builder.load(seen), builder.load(entry)
                value = [emit.load(x_data, part) for part in [real, builder.add(real, x_im)][:parts_in]]
                for i in range(p):
                    index = builder.add(place, rows_of_T[i])
                    number = [emit.splat(T_data, index, part) for part in range(2)]
                    for total, terms in zip(totals[i], complex_product(number, value, conjugate), strict=False):
                        builder.store(summed(emit, terms, builder.load(total)), total)
                builder.store(builder.add(real, x_step), seen)
                builder.store(builder.add(place, j_step), entry)
            for i in range(p):
                rows_out.store(i, column, [builder.load(total) for total in totals[i]])
        return context.get_dummy_value()

    index = types.intp
    places = (x, index, index, index, y, index, index, index, T, index, index, index, index, index)
    return types.void(outputs, x_parts, y_parts, adjoint, *places), codegen


@intrinsic(prefer_literal=True)
def gradient_entries(
    typingctx: Any, columns: Any, g_parts: Any, x_parts: Any,
    g: Any, g_base: Any, g_im: Any, x: Any, x_base: Any, x_step: Any, x_im: Any, grad: Any, at: Any, width: Any,
) -> Any:  # fmt: skip
    """grad[at + 2 j] += sum over columns of g conj(x_j), for one row g and a literal number of j, four at the most. Eight numbers
    are added to, be it zeros, so grad has room for six more."""
    r, parts_g, parts_x = (t.literal_value for t in (columns, g_parts, x_parts))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit, eight = Emitter(context, builder, g.dtype, wide=True), Emitter(context, builder, g.dtype)
        g_data, x_data, grad_data = (emit.data(signature.args[i], args[i]) for i in (3, 6, 10))
        g_base, g_im, at, width = args[4], args[5], args[11], args[12]
        row_g, rows_x = RowSet(emit, g_data, (g_base, g_base, g_im), 1, parts_g), RowSet(emit, x_data, args[7:10], r, parts_x)
        totals = [emit.variable() for _ in range(2 * r)]
        for total in totals:
            builder.store(emit.zero(), total)
        with in_columns(emit, width) as column:
            own = row_g.load(0, column)
            for j in range(r):
                for part, terms in enumerate(complex_product(rows_x.load(j, column), own, conjugate=True)):
                    total = totals[2 * j + part]
                    builder.store(summed(emit, terms, builder.load(total)), total)
        vectors = [builder.load(total) for total in totals]
        sums = emit.sums(vectors + [emit.zero()] * (LANES - len(vectors)))
        eight.store(grad_data, at, eight.add(eight.load(grad_data, at), sums))
        return context.get_dummy_value()

    index = types.intp
    places = (g, index, index, x, index, index, index, grad, index, index)
    return types.void(columns, g_parts, x_parts, *places), codegen


@intrinsic(prefer_literal=True)
def gradient_tile(
    typingctx: Any, rows: Any, vectors: Any, whole: Any, g_parts: Any, x_parts: Any,
    g: Any, g_base: Any, g_step: Any, g_im: Any, turned: Any, at: Any, pitch: Any, im: Any,
    grad: Any, to: Any, line: Any, grad_im: Any, width: Any,
) -> Any:  # fmt: skip
    """grad[to + i line + j] += sum over columns c of g_i[c] conj(turned[at + c pitch + j]), for literal numbers of rows i and of
    vectors of j, whole registers or eight lanes each."""
    p, count, wide, parts_g, parts_x = (t.literal_value for t in (rows, vectors, whole, g_parts, x_parts))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, g.dtype, wide=bool(wide))
        g_data, turned_data, grad_data = (emit.data(signature.args[i], args[i]) for i in (5, 9, 13))
        g_base, g_step, g_im = args[6:9]
        at, pitch, im = args[10:13]
        to, line, grad_im, width = args[14:]
        totals = [[[emit.variable() for _ in range(count)] for _ in range(2)] for _ in range(p)]
        for total in (total for row in totals for part in row for total in part):
            builder.store(emit.zero(), total)
        rows_of_g = [builder.add(g_base, emit.times(g_step, i)) for i in range(p)]
        seen = cgutils.alloca_once(builder, at.type)
        builder.store(at, seen)
        with cgutils.for_range(builder, width) as loop:
            real = builder.load(seen)
            parts = [real, builder.add(real, im)][:parts_x]
            values = [[emit.load(turned_data, emit.plus(part, v * emit.lanes)) for part in parts] for v in range(count)]
            for i in range(p):
                place = builder.add(rows_of_g[i], loop.index)
                own = [emit.splat(g_data, part) for part in [place, builder.add(place, g_im)][:parts_g]]
                for v in range(count):
                    for part, terms in enumerate(complex_product(values[v], own, conjugate=True)):
                        total = totals[i][part][v]
                        builder.store(summed(emit, terms, builder.load(total)), total)
            builder.store(builder.add(real, pitch), seen)
        for i in range(p):
            real = builder.add(to, emit.times(line, i))
            for part, start in enumerate((real, builder.add(real, grad_im))):
                for v in range(count):
                    place = emit.plus(start, v * emit.lanes)
                    emit.store(grad_data, place, emit.add(emit.load(grad_data, place), builder.load(totals[i][part][v])))
        return context.get_dummy_value()

    index = types.intp
    places = (g, index, index, index, turned, index, index, index, grad, index, index, index, index)
    return types.void(rows, vectors, whole, g_parts, x_parts, *places), codegen


def _product(parts_in, parts_out, adjoint):
    """All outputs of a product of rows with so many parts."""

    @inlined
    def product(outputs, inputs, x, xb, xs, xi, y, yb, ys, yi, T, at, i_step, j_step, width):
        if outputs < TILE:
            for i in range(outputs):
                to, t = yb + i * ys, at + i * i_step
                product_tile(1, parts_in, parts_out, adjoint, x, xb, xs, xi, y, to, ys, yi, T, t, i_step, j_step, inputs, width)
            return
        for start in range(0, outputs, TILE):
            i = min(start, outputs - TILE)  # where tiles do not fit, some outputs are made twice
            to, t = yb + i * ys, at + i * i_step
            product_tile(TILE, parts_in, parts_out, adjoint, x, xb, xs, xi, y, to, ys, yi, T, t, i_step, j_step, inputs, width)

    return product


def _entries(parts_g, parts_x):
    """The gradient of a factor's matrix (r, r), from rows with so many parts."""

    @inlined
    def entries(r, g, gb, gs, gi, x, xb, xs, xi, grad, at, width):
        whole = r - r % ENTRIES
        for i in range(r):
            g0, to = gb + i * gs, at + 2 * i * r
            for j in range(0, whole, ENTRIES):
                gradient_entries(ENTRIES, parts_g, parts_x, g, g0, gi, x, xb + j * xs, xs, xi, grad, to + 2 * j, width)
            for j in range(whole, r):
                gradient_entries(1, parts_g, parts_x, g, g0, gi, x, xb + j * xs, xs, xi, grad, to + 2 * j, width)

    return entries


def _lines(parts_g, parts_x):
    """The gradient of a matrix whose inputs have been turned around, from rows with so many parts."""

    @inlined
    def tiles(vectors, whole, p, g, gb, gs, gi, turned, at, pitch, im, grad, to, line, grad_im, width):
        for i in range(0, p - p % ROWS, ROWS):
            gradient_tile(
                ROWS, vectors, whole, parts_g, parts_x, g, gb + i * gs, gs, gi, turned, at, pitch, im,
                grad, to + i * line, line, grad_im, width,
            )  # fmt: skip

    @inlined
    def lines(p, g, gb, gs, gi, turned, pitch, grad, line, width):
        lanes, im = max(LANES, REGISTER // grad.itemsize), p * line
        most = line - line % (VECTORS * lanes)
        whole = line - line % lanes
        for j in range(0, most, VECTORS * lanes):
            tiles(VECTORS, 1, p, g, gb, gs, gi, turned, j, pitch, line, grad, j, line, im, width)
        for j in range(most, whole, lanes):
            tiles(1, 1, p, g, gb, gs, gi, turned, j, pitch, line, grad, j, line, im, width)
        for j in range(whole, line, LANES):
            tiles(1, 0, p, g, gb, gs, gi, turned, j, pitch, line, grad, j, line, im, width)
        for i in range(p - p % ROWS, p):
            for k in range(0, line, LANES):
                gradient_tile(
                    1, 1, 0, parts_g, parts_x, g, gb + i * gs, gs, gi, turned, k, pitch, line, grad, i * line + k, line, im, width
                )  # fmt: skip

    return lines


product_2_2, product_1_2, product_2_1 = _product(2, 2, 0), _product(1, 2, 0), _product(2, 1, 0)
adjoint_2_2, adjoint_1_2, adjoint_2_1 = _product(2, 2, 1), _product(1, 2, 1), _product(2, 1, 1)
entries_2_2, entries_1_2, entries_2_1 = _entries(2, 2), _entries(1, 2), _entries(2, 1)
lines_2_2, lines_1_2, lines_2_1 = _lines(2, 2), _lines(1, 2), _lines(2, 1)


@spliced
def product(p, r, parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, at, width):
    """y = T x for a matrix (p, r); x and y lie apart."""
    if parts_in == 1:
        product_1_2(p, r, x, xb, xs, xi, y, yb, ys, yi, T, at, 2 * r, 2, width)
    elif parts_out == 1:
        product_2_1(p, r, x, xb, xs, xi, y, yb, ys, yi, T, at, 2 * r, 2, width)
    else:
        product_2_2(p, r, x, xb, xs, xi, y, yb, ys, yi, T, at, 2 * r, 2, width)


@spliced
def adjoint_product(p, r, parts_g, parts_x, g, gb, gs, gi, out, ob, os, oi, T, at, width):
    """out = T^H g for a matrix (p, r); both lie apart."""
    if parts_g == 1:
        adjoint_1_2(r, p, g, gb, gs, gi, out, ob, os, oi, T, at, 2, 2 * r, width)
    elif parts_x == 1:
        adjoint_2_1(r, p, g, gb, gs, gi, out, ob, os, oi, T, at, 2, 2 * r, width)
    else:
        adjoint_2_2(r, p, g, gb, gs, gi, out, ob, os, oi, T, at, 2, 2 * r, width)


@spliced
def factor_gradient(r, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, grad, at, width):
    """grad += g x^H, for a factor's matrix (r, r)."""
    if parts_g == 1:
        entries_1_2(r, g, gb, gs, gi, x, xb, xs, xi, grad, at, width)
    elif parts_x == 1:
        entries_2_1(r, g, gb, gs, gi, x, xb, xs, xi, grad, at, width)
    else:
        entries_2_2(r, g, gb, gs, gi, x, xb, xs, xi, grad, at, width)


@inlined
def turn_rows(r, x, xb, xs, turned, to, pitch, width):
    """Rows of x to columns; where eight at a time do not fit, the last eight once more."""
    if r < LANES:
        for j in range(r):
            for c in range(width):
                turned[to + c * pitch + j] = x[xb + j * xs + c]
        return
    for start in range(0, r, LANES):
        j = min(start, r - LANES)
        for c in range(0, width, LANES):
            turn(x, xb + j * xs + c, xs, turned, to + c * pitch + j, pitch)


@inlined
def matrix_gradient(p, r, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, grad, turned, width):
    """grad += g x^H, for a matrix (p, r), kept in lines. What is left in `turned` beside the inputs goes where nobody looks."""
    line = r + -r % LANES
    pitch = 2 * line
    turn_rows(r, x, xb, xs, turned, 0, pitch, width)
    if parts_x == 2:
        turn_rows(r, x, xb + xi, xs, turned, line, pitch, width)
    if parts_g == 1:
        lines_1_2(p, g, gb, gs, gi, turned, pitch, grad, line, width)
    elif parts_x == 1:
        lines_2_1(p, g, gb, gs, gi, turned, pitch, grad, line, width)
    else:
        lines_2_2(p, g, gb, gs, gi, turned, pitch, grad, line, width)
