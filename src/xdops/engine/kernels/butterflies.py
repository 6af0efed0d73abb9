"""The factors of a K-matrix on a block of columns, forward and backward. For numba.

Factors are listed in the order they are applied, (kind, stride, blocks, offset) each: kind is the radix, FOLD (the upper of two
rows) or UNFOLD (two rows of one), and offset says where its matrices T[block, offset, i, j] begin among interleaved complex
numbers. A matrix that is no butterfly is DENSE, with its numbers of rows and columns in the place of stride and blocks; its inputs
and outputs lie apart. Row i of an array starts at `base + i step`, its imaginary parts `im` numbers further; arguments come in
this order. The last one is `width`, how many columns there are.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.compiling import called, inlined, spliced
from xdops.engine.kernels.mixrows import mix_rows, mix_rows_back, rows_gradient
from xdops.engine.kernels.tiles import adjoint_product, factor_gradient, matrix_gradient, product
from xdops.engine.kernels.vectors import LANES, copy8

FOLD, UNFOLD, DENSE = -1, -2, -3


def _unrolled(p, r):
    """The two passes of factors whose matrices are (p, r), in straight-line code."""
    size = 2 * p * r

    @inlined
    def mix(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width):
        for b in range(blocks):
            for o in range(s):
                at = offset + (b * s + o) * size
                x0, y0 = xb + (b * r * s + o) * xs, yb + (b * p * s + o) * ys
                if parts_in == 1:
                    mix_rows(p, r, 1, 2, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)
                elif parts_out == 1:
                    mix_rows(p, r, 2, 1, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)
                else:
                    mix_rows(p, r, 2, 2, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)

    @inlined
    def back(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width):
        for b in range(blocks):
            for o in range(s):
                at = offset + (b * s + o) * size
                x0, g0, o0 = xb + (b * r * s + o) * xs, gb + (b * p * s + o) * gs, ob + (b * r * s + o) * os
                if parts_g == 1:
                    if grad.size:
                        rows_gradient(p, r, 1, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 1, 2, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)
                elif parts_x == 1:
                    if grad.size:
                        rows_gradient(p, r, 2, 1, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 2, 1, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)
                else:
                    if grad.size:
                        rows_gradient(p, r, 2, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 2, 2, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)

    return mix, back


mix_2, back_2 = _unrolled(2, 2)
mix_3, back_3 = _unrolled(3, 3)
mix_5, back_5 = _unrolled(5, 5)
mix_fold, back_fold = _unrolled(1, 2)
mix_unfold, back_unfold = _unrolled(2, 1)


@inlined
def copy_rows(x, row, y, yb, ys, yi, parts, count, width):
    """A block's rows to rows elsewhere, of which only so many parts are wanted."""
    for i in range(count):
        for h in range(0, width, LANES):
            copy8(x, i * row + h, y, yb + i * ys + h)
            if parts == 2:
                copy8(x, i * row + width + h, y, yb + i * ys + yi + h)


@inlined
def sizes(kind, s, blocks):
    """Rows and columns of a matrix, how many of them there are, and how far apart what they mix is."""
    if kind == DENSE:
        return s, blocks, 1, 1
    return kind, kind, blocks, s


@spliced
def mix_large(kind, s, blocks, offset, parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, hold, width):
    """A factor of any radix, or a dense matrix. A factor's y may be x: its outputs are held until all inputs have been seen."""
    p, r, blocks, s = sizes(kind, s, blocks)
    dense, row = kind == DENSE, 2 * width
    for b in range(blocks):
        for o in range(s):
            at, first = offset + (b * s + o) * 2 * p * r, b * r * s + o
            to, tb, ts, ti = (y, yb, ys, yi) if dense else (hold, 0 * width, row, width)
            product(p, r, parts_in, parts_out, x, xb + first * xs, s * xs, xi, to, tb, ts, ti, T, at, width)
            if not dense:
                copy_rows(hold, row, y, yb + first * ys, s * ys, yi, parts_out, p, width)


@spliced
def back_large(kind, s, blocks, offset, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, hold, width):
    p, r, blocks, s = sizes(kind, s, blocks)
    dense, row = kind == DENSE, 2 * width
    if dense and grad.size:
        matrix_gradient(p, r, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, grad, hold, width)
    for b in range(blocks):
        for o in range(s):
            at, first = offset + (b * s + o) * 2 * p * r, b * r * s + o
            g0 = gb + first * gs
            if not dense and grad.size:
                factor_gradient(r, parts_g, parts_x, g, g0, s * gs, gi, x, xb + first * xs, s * xs, xi, grad, at, width)
            to, tb, ts, ti = (out, ob, os, oi) if dense else (hold, 0 * width, row, width)
            adjoint_product(p, r, parts_g, parts_x, g, g0, s * gs, gi, to, tb, ts, ti, T, at, width)
            if not dense:
                copy_rows(hold, row, out, ob + first * os, s * os, oi, parts_x, r, width)


@inlined
def both_parts(width):
    """2, but not as a literal, whose type is its own: all that is called with it would be compiled once more."""
    return 2 + 0 * width


@inlined
def one_part(width):
    """1, likewise."""
    return 1 + 0 * width


@called
def mix(kind, s, blocks, offset, parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, hold, width):
    """One factor: y = T x."""
    if kind == 2:
        mix_2(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width)
    elif kind == 3:
        mix_3(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width)
    elif kind == 5:
        mix_5(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width)
    elif kind == FOLD:
        mix_fold(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width)
    elif kind == UNFOLD:
        mix_unfold(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, width)
    else:
        mix_large(kind, s, blocks, offset, parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, hold, width)


@called
def back(kind, s, blocks, offset, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, hold, width):
    """One factor: out = T^H g, and grad += g x^H, unless grad is empty."""
    if kind == 2:
        back_2(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width)
    elif kind == 3:
        back_3(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width)
    elif kind == 5:
        back_5(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width)
    elif kind == FOLD:
        back_fold(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width)
    elif kind == UNFOLD:
        back_unfold(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width)
    else:
        back_large(kind, s, blocks, offset, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, hold, width)
