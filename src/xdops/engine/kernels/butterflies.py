"""The factors of a K-matrix on a block of columns, forward and backward. For numba.

Factors are listed in the order they are applied, (kind, stride, blocks, offset) each: kind is the radix, FOLD (the upper of two
rows) or UNFOLD (two rows of one), and offset says where its matrices T[block, offset, i, j] begin among interleaved complex
numbers. Row i of an array starts at `base + i step`, its imaginary parts `im` numbers further; arguments come in this order. The
last one is `width`, how many columns there are.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.compiling import called, inlined
from xdops.engine.kernels.mixrows import matrix_gradient, mix_rows, mix_rows_back
from xdops.engine.kernels.vectors import LANES, clear8, copy8

FOLD, UNFOLD = -1, -2


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
                    mix_rows(p, r, 1, 2, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)
                elif parts_out == 1:
                    mix_rows(p, r, 2, 1, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)
                else:
                    mix_rows(p, r, 2, 2, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at, width)

    @inlined
    def back(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, width):
        for b in range(blocks):
            for o in range(s):
                at = offset + (b * s + o) * size
                x0, g0, o0 = xb + (b * r * s + o) * xs, gb + (b * p * s + o) * gs, ob + (b * r * s + o) * os
                if parts_g == 1:
                    if grad.size:
                        matrix_gradient(p, r, 1, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 1, 2, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)
                elif parts_x == 1:
                    if grad.size:
                        matrix_gradient(p, r, 2, 1, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 2, 1, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)
                else:
                    if grad.size:
                        matrix_gradient(p, r, 2, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at, width)
                    mix_rows_back(r, p, 2, 2, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at, width)

    return mix, back


mix_2, back_2 = _unrolled(2, 2)
mix_3, back_3 = _unrolled(3, 3)
mix_5, back_5 = _unrolled(5, 5)
mix_fold, back_fold = _unrolled(1, 2)
mix_unfold, back_unfold = _unrolled(2, 1)


@inlined
def copy_rows(x, xb, xs, xi, y, yb, ys, yi, count, width):
    for i in range(count):
        for h in range(0, width, LANES):
            copy8(x, xb + i * xs + h, y, yb + i * ys + h)
            copy8(x, xb + i * xs + xi + h, y, yb + i * ys + yi + h)


@inlined
def clear_rows(x, count, width):
    for i in range(0, 2 * count * width, LANES):
        clear8(x, i)


@inlined
def mix_any(r, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, hold, width):
    """A factor of any radix, entry by entry; imaginary parts are there. `hold` has rows of its own."""
    row_size = 2 * width
    for b in range(blocks):
        for o in range(s):
            at, row = offset + (b * s + o) * 2 * r * r, b * r * s + o
            clear_rows(hold, r, width)
            for i in range(r):
                for j in range(r):
                    x0, c = xb + (row + j * s) * xs, at + 2 * (i * r + j)
                    mix_rows(1, 1, 2, 2, 1, x, x0, 0, xi, hold, i * row_size, 0, width, T, c, width)
            copy_rows(hold, 0, row_size, width, y, yb + row * ys, s * ys, yi, r, width)


@inlined
def back_any(r, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, hold, width):
    row_size = 2 * width
    for b in range(blocks):
        for o in range(s):
            at, row = offset + (b * s + o) * 2 * r * r, b * r * s + o
            clear_rows(hold, r, width)
            for i in range(r):
                for j in range(r):
                    c, g0 = at + 2 * (i * r + j), gb + (row + i * s) * gs
                    if grad.size:
                        matrix_gradient(1, 1, 2, 2, g, g0, 0, gi, x, xb + (row + j * s) * xs, 0, xi, grad, c, width)
                    mix_rows_back(1, 1, 2, 2, 1, g, g0, 0, gi, hold, j * row_size, 0, width, T, c, width)
            copy_rows(hold, 0, row_size, width, out, ob + row * os, s * os, oi, r, width)


@inlined
def both_parts(width):
    """2, but not as a literal, whose type is its own: all that is called with it would be compiled once more."""
    return 2 + 0 * width


@inlined
def unrolled(kind):
    """Whether there is straight-line code for a factor of this kind, which then need not look at imaginary parts that are zero."""
    return kind == 2 or kind == 3 or kind == 5 or kind < 0


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
        mix_any(kind, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, hold, width)


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
        back_any(kind, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, hold, width)
