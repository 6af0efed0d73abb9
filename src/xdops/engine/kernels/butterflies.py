"""The factors of a K-matrix on a block of 16 columns, forward and backward. For numba.

Factors are listed in the order they are applied, (kind, stride, blocks, offset) each: kind is the radix, FOLD (the upper of two
rows) or UNFOLD (two rows of one), and offset says where its matrices T[block, offset, i, j] begin among interleaved complex
numbers. Row i of an array starts at `base + i step`, its imaginary parts `im` numbers further; arguments come in this order.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.compiling import inlined
from xdops.engine.kernels.mixrows import WIDTH, matrix_gradient, mix_rows, mix_rows_back
from xdops.engine.kernels.vectors import LANES, clear8, copy8

#: Numbers in a row of a block: real parts, then imaginary parts.
ROW = 2 * WIDTH

FOLD, UNFOLD = -1, -2


def _unrolled(p, r):
    """The two passes of factors whose matrices are (p, r), in straight-line code."""
    size = 2 * p * r

    @inlined
    def mix(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s):
        for b in range(blocks):
            for o in range(s):
                at = offset + (b * s + o) * size
                x0, y0 = xb + (b * r * s + o) * xs, yb + (b * p * s + o) * ys
                if parts_in == 1:
                    mix_rows(p, r, 1, 2, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at)
                elif parts_out == 1:
                    mix_rows(p, r, 2, 1, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at)
                else:
                    mix_rows(p, r, 2, 2, 0, x, x0, s * xs, xi, y, y0, s * ys, yi, T, at)

    @inlined
    def back(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s):
        for b in range(blocks):
            for o in range(s):
                at = offset + (b * s + o) * size
                x0, g0, o0 = xb + (b * r * s + o) * xs, gb + (b * p * s + o) * gs, ob + (b * r * s + o) * os
                if parts_g == 1:
                    if grad.size:
                        matrix_gradient(p, r, 1, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at)
                    mix_rows_back(r, p, 1, 2, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at)
                elif parts_x == 1:
                    if grad.size:
                        matrix_gradient(p, r, 2, 1, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at)
                    mix_rows_back(r, p, 2, 1, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at)
                else:
                    if grad.size:
                        matrix_gradient(p, r, 2, 2, g, g0, s * gs, gi, x, x0, s * xs, xi, grad, at)
                    mix_rows_back(r, p, 2, 2, 0, g, g0, s * gs, gi, out, o0, s * os, oi, T, at)

    return mix, back


mix_2, back_2 = _unrolled(2, 2)
mix_3, back_3 = _unrolled(3, 3)
mix_5, back_5 = _unrolled(5, 5)
mix_fold, back_fold = _unrolled(1, 2)
mix_unfold, back_unfold = _unrolled(2, 1)


@inlined
def copy_rows(x, xb, xs, xi, y, yb, ys, yi, count):
    for i in range(count):
        for h in range(0, WIDTH, LANES):
            copy8(x, xb + i * xs + h, y, yb + i * ys + h)
            copy8(x, xb + i * xs + xi + h, y, yb + i * ys + yi + h)


@inlined
def clear_rows(x, base, count):
    for i in range(0, count * ROW, LANES):
        clear8(x, base + i)


@inlined
def mix_any(r, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, hold):
    """A factor of any radix, entry by entry; imaginary parts are there."""
    for b in range(blocks):
        for o in range(s):
            at, row = offset + (b * s + o) * 2 * r * r, b * r * s + o
            clear_rows(hold, 0, r)
            for i in range(r):
                for j in range(r):
                    mix_rows(1, 1, 2, 2, 1, x, xb + (row + j * s) * xs, 0, xi, hold, i * ROW, 0, WIDTH, T, at + 2 * (i * r + j))
            copy_rows(hold, 0, ROW, WIDTH, y, yb + row * ys, s * ys, yi, r)


@inlined
def back_any(r, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, hold):
    for b in range(blocks):
        for o in range(s):
            at, row = offset + (b * s + o) * 2 * r * r, b * r * s + o
            clear_rows(hold, 0, r)
            for i in range(r):
                for j in range(r):
                    c, g0 = at + 2 * (i * r + j), gb + (row + i * s) * gs
                    if grad.size:
                        matrix_gradient(1, 1, 2, 2, g, g0, 0, gi, x, xb + (row + j * s) * xs, 0, xi, grad, c)
                    mix_rows_back(1, 1, 2, 2, 1, g, g0, 0, gi, hold, j * ROW, 0, WIDTH, T, c)
            copy_rows(hold, 0, ROW, WIDTH, out, ob + row * os, s * os, oi, r)


@inlined
def unrolled(kind):
    """Whether there is straight-line code for a factor of this kind, which then need not look at imaginary parts that are zero."""
    return kind == 2 or kind == 3 or kind == 5 or kind < 0


@inlined
def mix(step, parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, hold):
    """One factor: y = T x."""
    kind, s, blocks, offset = step[0], step[1], step[2], step[3]
    if kind == 2:
        mix_2(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s)
    elif kind == 3:
        mix_3(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s)
    elif kind == 5:
        mix_5(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s)
    elif kind == FOLD:
        mix_fold(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s)
    elif kind == UNFOLD:
        mix_unfold(parts_in, parts_out, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s)
    else:
        mix_any(kind, x, xb, xs, xi, y, yb, ys, yi, T, offset, blocks, s, hold)


@inlined
def back(step, parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, hold):
    """One factor: out = T^H g, and grad += g x^H, unless grad is empty."""
    kind, s, blocks, offset = step[0], step[1], step[2], step[3]
    if kind == 2:
        back_2(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s)
    elif kind == 3:
        back_3(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s)
    elif kind == 5:
        back_5(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s)
    elif kind == FOLD:
        back_fold(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s)
    elif kind == UNFOLD:
        back_unfold(parts_g, parts_x, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s)
    else:
        back_any(kind, g, gb, gs, gi, x, xb, xs, xi, out, ob, os, oi, T, grad, offset, blocks, s, hold)
