"""Blocks of 16 columns through all factors of a K-matrix, and in and out of memory. For numba.

A side of the matrix, its inputs or its outputs, is five numbers: (rows in use, step between them, size, parts, turned). A turned
side holds the rows of a column next to each other, (parts, q, rows in use); the other kind holds columns next to each other, (2,
size, q).
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.butterflies import ROW, back, mix, unrolled
from xdops.engine.kernels.compiling import inlined, kernel, sources
from xdops.engine.kernels.mixrows import WIDTH
from xdops.engine.kernels.vectors import LANES, clear8, turn


@inlined
def load_block(source, side, q, first, width, block, base, known_parts):
    """Columns first..first+width of a side, zeros where it has no rows or columns, or parts that the reader does not know of."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    whole = width == WIDTH and step == 1 and parts == known_parts
    for i in range(count * ROW if whole else 0, size * ROW, LANES):
        clear8(block, base + i)
    for part in range(parts):
        to = base + part * WIDTH
        if not turned:
            for i in range(size):
                at = (part * size + i) * q + first
                for c in range(width):
                    block[to + i * ROW + c] = source[at + c]
            continue
        at = (part * q + first) * count
        even = count - count % LANES
        for c in range(0, width - width % LANES, LANES):
            for i in range(0, even, LANES):
                turn(source, at + c * count + i, count, block, to + i * step * ROW + c, step * ROW)
            for i in range(even, count):
                for k in range(c, c + LANES):
                    block[to + i * step * ROW + k] = source[at + k * count + i]
        for c in range(width - width % LANES, width):
            for i in range(count):
                block[to + i * step * ROW + c] = source[at + c * count + i]


@inlined
def store_block(block, base, out, side, q, first, width):
    """The way back: rows in use of a block into columns first..first+width of a side."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    for part in range(parts):
        start = base + part * WIDTH
        if not turned:
            for i in range(size):
                to = (part * size + i) * q + first
                for c in range(width):
                    out[to + c] = block[start + i * ROW + c]
            continue
        to = (part * q + first) * count
        even = count - count % LANES
        for c in range(0, width - width % LANES, LANES):
            for i in range(0, even, LANES):
                turn(block, start + i * step * ROW + c, step * ROW, out, to + c * count + i, count)
            for i in range(even, count):
                for k in range(c, c + LANES):
                    out[to + k * count + i] = block[start + i * step * ROW + k]
        for c in range(width - width % LANES, width):
            for i in range(count):
                out[to + c * count + i] = block[start + i * step * ROW + c]


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of."""

    @kernel
    def forward(x, x_side, y, y_side, q, values, steps, first_block, last_block, work):
        """y = A x for some blocks of columns. work holds one block and the rows of the largest factor."""
        _ = kept_under
        count, rows = len(steps), max(x_side[2], y_side[2])
        hold = work[rows * ROW :]
        for column in range(first_block * WIDTH, min(q, last_block * WIDTH), WIDTH):
            width = min(WIDTH, q - column)
            array, base, pitch, im = work, 0, ROW, WIDTH
            if x_side[4] or width < WIDTH:
                load_block(x, x_side, q, column, width, work, 0, x_side[3] if count > 1 and unrolled(steps[0, 0]) else 2)
            else:  # the first factor reads from where x lies
                array, base, pitch, im = x, column, q, x_side[2] * q
            direct = not y_side[4] and width == WIDTH  # the last factor writes to where y lies
            for j in range(count):
                known = unrolled(steps[j, 0]) and count > 1
                parts_in = x_side[3] if j == 0 and known else 2
                parts_out = y_side[3] if j == count - 1 and known else 2
                into, to, into_pitch, into_im = work, 0, ROW, WIDTH
                if j == count - 1 and direct:
                    into, to, into_pitch, into_im = y, column, q, y_side[2] * q
                mix(steps[j], parts_in, parts_out, array, base, pitch, im, into, to, into_pitch, into_im, values, hold)
                array, base, pitch, im = work, 0, ROW, WIDTH
            if not direct:
                store_block(work, 0, y, y_side, q, column, width)

    @kernel
    def backward(g, y_side, x, x_side, out, q, values, grad, steps, first_block, last_block, work):
        """From g, the gradient of y = A x, and x for some blocks of columns: out = A^H g, and grad collects the factors' gradients.

        work holds what every factor sees, the gradient, and the rows of the largest factor. out may be x, and grad or out empty.
        """
        _ = kept_under
        count, rows = len(steps), max(x_side[2], y_side[2])
        size = rows * ROW
        here, hold = count * size, work[(count + 1) * size :]
        for column in range(first_block * WIDTH, min(q, last_block * WIDTH), WIDTH):
            width = min(WIDTH, q - column)
            first, first_base, first_pitch, first_im = work, 0, ROW, WIDTH
            if grad.size:
                if x_side[4] or width < WIDTH:
                    load_block(x, x_side, q, column, width, work, 0, x_side[3] if count > 1 and unrolled(steps[0, 0]) else 2)
                else:
                    first, first_base, first_pitch, first_im = x, column, q, x_side[2] * q
                array, base, pitch, im = first, first_base, first_pitch, first_im
                for j in range(count - 1):
                    parts = x_side[3] if j == 0 and unrolled(steps[0, 0]) else 2
                    mix(steps[j], parts, 2, array, base, pitch, im, work, (j + 1) * size, ROW, WIDTH, values, hold)
                    array, base, pitch, im = work, (j + 1) * size, ROW, WIDTH
            array, base, pitch, im = work, here, ROW, WIDTH
            if y_side[4] or width < WIDTH:
                load_block(g, y_side, q, column, width, work, here, y_side[3] if count > 1 and unrolled(steps[-1, 0]) else 2)
            else:
                array, base, pitch, im = g, column, q, y_side[2] * q
            direct = out.size and not x_side[4] and width == WIDTH
            for j in range(count - 1, -1, -1):
                known = unrolled(steps[j, 0]) and count > 1
                parts_g = y_side[3] if j == count - 1 and known else 2
                parts_x = x_side[3] if j == 0 and known else 2
                into, to, into_pitch, into_im = work, here, ROW, WIDTH
                if j > 0:
                    seen, seen_base, seen_pitch, seen_im = work, j * size, ROW, WIDTH
                else:
                    seen, seen_base, seen_pitch, seen_im = first, first_base, first_pitch, first_im
                    if direct:
                        into, to, into_pitch, into_im = out, column, q, x_side[2] * q
                back(
                    steps[j], parts_g, parts_x, array, base, pitch, im, seen, seen_base, seen_pitch, seen_im,
                    into, to, into_pitch, into_im, values, grad, hold,
                )  # fmt: skip
                array, base, pitch, im = work, here, ROW, WIDTH
            if out.size and not direct:
                store_block(work, here, out, x_side, q, column, width)

    return forward, backward


forward, backward = _kernels(sources())
