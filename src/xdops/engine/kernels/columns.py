"""Blocks of columns through all factors of a K-matrix, and in and out of memory. For numba.

A side of the matrix, its inputs or its outputs, is five numbers: (rows in use, step between them, size, parts, turned). A turned
side holds the rows of a column next to each other, (parts, q, rows in use); the other kind holds columns next to each other, (2,
size, q). A block has `wide` columns, a row of it `wide` real parts and then as many imaginary ones; the last block of all may use
`width` of them only.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.butterflies import back, mix, unrolled
from xdops.engine.kernels.compiling import inlined, sources
from xdops.engine.kernels.mixrows import WIDTH
from xdops.engine.kernels.native import OWN, Native, integers, next_part, numbers, words
from xdops.engine.kernels.vectors import LANES, clear8, prefetch, turn


@inlined
def load_block(source, side, q, first, width, block, base, wide, known_parts):
    """Columns first..first+width of a side, zeros where it has no rows or columns, or parts that the reader does not know of."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    row = 2 * wide
    whole = width == wide and step == 1 and parts == known_parts
    for i in range(count * row if whole else 0, size * row, LANES):
        clear8(block, base + i)
    for part in range(parts):
        to = base + part * wide
        if not turned:
            for i in range(size):
                at = (part * size + i) * q + first
                for c in range(width):
                    block[to + i * row + c] = source[at + c]
            continue
        at = (part * q + first) * count
        even = count - count % LANES
        for c in range(0, width - width % LANES, LANES):
            for i in range(0, even, LANES):
                turn(source, at + c * count + i, count, block, to + i * step * row + c, step * row)
            for i in range(even, count):
                for k in range(c, c + LANES):
                    block[to + i * step * row + k] = source[at + k * count + i]
        for c in range(width - width % LANES, width):
            for i in range(count):
                block[to + i * step * row + c] = source[at + c * count + i]


@inlined
def store_block(block, base, wide, out, side, q, first, width):
    """The way back: rows in use of a block into columns first..first+width of a side."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    row = 2 * wide
    for part in range(parts):
        start = base + part * wide
        if not turned:
            for i in range(size):
                to = (part * size + i) * q + first
                for c in range(width):
                    out[to + c] = block[start + i * row + c]
            continue
        to = (part * q + first) * count
        even = count - count % LANES
        for c in range(0, width - width % LANES, LANES):
            for i in range(0, even, LANES):
                turn(block, start + i * step * row + c, step * row, out, to + c * count + i, count)
            for i in range(even, count):
                for k in range(c, c + LANES):
                    out[to + k * count + i] = block[start + i * step * row + k]
        for c in range(width - width % LANES, width):
            for i in range(count):
                out[to + c * count + i] = block[start + i * step * row + c]


@inlined
def expect(out, side, q, first, width):
    """Fetch memory of a side that is not turned, which will be written: its lines lie too far apart for processors to guess."""
    for i in range(2 * side[2]):
        for c in range(0, width, WIDTH):
            prefetch(out, i * q + first + c)


@inlined
def forward_part(x, x_side, y, y_side, q, values, steps, first_block, last_block, work, wide):
    """y = A x for some blocks of columns. work holds one block and the rows of the largest factor."""
    count, rows, row = len(steps), max(x_side[2], y_side[2]), 2 * wide
    hold = work[rows * row :]
    for column in range(first_block * wide, min(q, last_block * wide), wide):
        width = min(wide, q - column)
        span, even = width + -width % WIDTH, width % WIDTH == 0
        direct = not y_side[4] and even  # the last factor writes to where y lies
        if direct:
            expect(y, y_side, q, column, span)
        array, base, pitch, im = work, 0, row, wide
        if x_side[4] or not even:
            known = x_side[3] if count > 1 and unrolled(steps[0, 0]) else 2
            load_block(x, x_side, q, column, width, work, 0, wide, known)
        else:  # the first factor reads from where x lies
            array, base, pitch, im = x, column, q, x_side[2] * q
        for j in range(count):
            known = unrolled(steps[j, 0]) and count > 1
            parts_in = x_side[3] if j == 0 and known else 2
            parts_out = y_side[3] if j == count - 1 and known else 2
            into, to, into_pitch, into_im = work, 0, row, wide
            if j == count - 1 and direct:
                into, to, into_pitch, into_im = y, column, q, y_side[2] * q
            mix(steps[j], parts_in, parts_out, array, base, pitch, im, into, to, into_pitch, into_im, values, hold, span)
            array, base, pitch, im = work, 0, row, wide
        if not direct:
            store_block(work, 0, wide, y, y_side, q, column, width)


@inlined
def backward_part(g, y_side, x, x_side, out, q, values, grad, steps, first_block, last_block, work, wide):
    """From g, the gradient of y = A x, and x for some blocks of columns: out = A^H g, and grad collects the factors' gradients.

    work holds what every factor sees, the gradient, and the rows of the largest factor. out may be x, and grad or out empty.
    """
    count, rows, row = len(steps), max(x_side[2], y_side[2]), 2 * wide
    size = rows * row
    here, hold = count * size, work[(count + 1) * size :]
    for column in range(first_block * wide, min(q, last_block * wide), wide):
        width = min(wide, q - column)
        span, even = width + -width % WIDTH, width % WIDTH == 0
        first, first_base, first_pitch, first_im = work, 0, row, wide
        direct = out.size and not x_side[4] and even
        if direct:
            expect(out, x_side, q, column, span)
        if grad.size:
            if x_side[4] or not even:
                known = x_side[3] if count > 1 and unrolled(steps[0, 0]) else 2
                load_block(x, x_side, q, column, width, work, 0, wide, known)
            else:
                first, first_base, first_pitch, first_im = x, column, q, x_side[2] * q
            array, base, pitch, im = first, first_base, first_pitch, first_im
            for j in range(count - 1):
                parts = x_side[3] if j == 0 and unrolled(steps[0, 0]) else 2
                mix(steps[j], parts, 2, array, base, pitch, im, work, (j + 1) * size, row, wide, values, hold, span)
                array, base, pitch, im = work, (j + 1) * size, row, wide
        array, base, pitch, im = work, here, row, wide
        if y_side[4] or not even:
            known = y_side[3] if count > 1 and unrolled(steps[-1, 0]) else 2
            load_block(g, y_side, q, column, width, work, here, wide, known)
        else:
            array, base, pitch, im = g, column, q, y_side[2] * q
        for j in range(count - 1, -1, -1):
            known = unrolled(steps[j, 0]) and count > 1
            parts_g = y_side[3] if j == count - 1 and known else 2
            parts_x = x_side[3] if j == 0 and known else 2
            into, to, into_pitch, into_im = work, here, row, wide
            if j > 0:
                seen, seen_base, seen_pitch, seen_im = work, j * size, row, wide
            else:
                seen, seen_base, seen_pitch, seen_im = first, first_base, first_pitch, first_im
                if direct:
                    into, to, into_pitch, into_im = out, column, q, x_side[2] * q
            back(
                steps[j], parts_g, parts_x, array, base, pitch, im, seen, seen_base, seen_pitch, seen_im,
                into, to, into_pitch, into_im, values, grad, hold, span,
            )  # fmt: skip
            array, base, pitch, im = work, here, row, wide
        if out.size and not direct:
            store_block(work, here, wide, out, x_side, q, column, width)


@inlined
def cut(count, part, parts):
    """Where a part of so many blocks begins."""
    return count * part // parts


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of."""

    def forward(given):
        """Words: x, its side, y, its side, q, values, steps, how many, working memory, numbers of it per part, columns a block."""
        _ = kept_under
        row = integers(given)
        x_side, y_side, steps = words(row[OWN + 1], 5), words(row[OWN + 3], 5), words(row[OWN + 6], 4 * row[OWN + 7])
        q, wide, room, parts = row[OWN + 4], row[OWN + 10], row[OWN + 9], row[1]
        x, y, values = numbers(given, row[OWN], 1), numbers(given, row[OWN + 2], 1), numbers(given, row[OWN + 5], 1)
        work, blocks = numbers(given, row[OWN + 8], parts * room), -(-q // wide)
        part = next_part(row)
        while part < parts:
            own = work[part * room : (part + 1) * room]
            first, last = cut(blocks, part, parts), cut(blocks, part + 1, parts)
            forward_part(x, x_side, y, y_side, q, values, steps.reshape((row[OWN + 7], 4)), first, last, own, wide)
            part = next_part(row)

    def backward(given):
        """The same with g in the place of y, then: the gradients of x and of the values, and how many numbers each has, or none."""
        _ = kept_under
        row = integers(given)
        x_side, y_side, steps = words(row[OWN + 1], 5), words(row[OWN + 3], 5), words(row[OWN + 6], 4 * row[OWN + 7])
        q, wide, room, parts = row[OWN + 4], row[OWN + 10], row[OWN + 9], row[1]
        x, g, values = numbers(given, row[OWN], 1), numbers(given, row[OWN + 2], 1), numbers(given, row[OWN + 5], 1)
        work, blocks = numbers(given, row[OWN + 8], parts * room), -(-q // wide)
        out, grads, each = numbers(given, row[OWN + 11], row[OWN + 12]), row[OWN + 13], row[OWN + 14]
        grad = numbers(given, grads, parts * each)
        part = next_part(row)
        while part < parts:
            own, sums = work[part * room : (part + 1) * room], grad[part * each : (part + 1) * each]
            first, last = cut(blocks, part, parts), cut(blocks, part + 1, parts)
            backward_part(
                g, y_side, x, x_side, out, q, values, sums, steps.reshape((row[OWN + 7], 4)), first, last, own, wide
            )  # fmt: skip
            part = next_part(row)

    return Native(forward), Native(backward)


forward, backward = _kernels(sources())
