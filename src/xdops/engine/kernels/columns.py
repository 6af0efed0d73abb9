"""Blocks of columns through all factors of a K-matrix, and in and out of memory. For numba.

A side of the matrix, its inputs or its outputs, is five numbers: (rows in use, step between them, size, parts, turned). A turned
side holds the rows of a column next to each other, (parts, q, rows in use); the other kind holds columns next to each other, (2,
size, q). A block has `wide` columns, a row of it `wide` real parts and then as many imaginary ones; the last block of all may use
`width` of them only.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.butterflies import DENSE, back, both_parts, mix
from xdops.engine.kernels.compiling import called, inlined, spliced
from xdops.engine.kernels.mixrows import WIDTH
from xdops.engine.kernels.native import OWN, next_part, numbers, words
from xdops.engine.kernels.vectors import LANES, clear8, prefetch, turn

#: The first word says which kernel is wanted, see `transforming`.
AFTER = OWN + 1


@called
def turn_in(source, at, pitch, count, step, width, block, to, row):
    """Columns of `count` numbers each, next to each other from `at` on and `pitch` apart, to every `step`-th row of a block."""
    even = count - count % LANES
    for c in range(0, width - width % LANES, LANES):
        for i in range(0, even, LANES):
            turn(source, at + c * pitch + i, pitch, block, to + i * step * row + c, step * row)
        for i in range(even, count):
            for k in range(c, c + LANES):
                block[to + i * step * row + k] = source[at + k * pitch + i]
    for c in range(width - width % LANES, width):
        for i in range(count):
            block[to + i * step * row + c] = source[at + c * pitch + i]


@called
def turn_out(block, start, row, out, to, pitch, count, step, width):
    """The way back."""
    even = count - count % LANES
    for c in range(0, width - width % LANES, LANES):
        for i in range(0, even, LANES):
            turn(block, start + i * step * row + c, step * row, out, to + c * pitch + i, pitch)
        for i in range(even, count):
            for k in range(c, c + LANES):
                out[to + k * pitch + i] = block[start + i * step * row + k]
    for c in range(width - width % LANES, width):
        for i in range(count):
            out[to + c * pitch + i] = block[start + i * step * row + c]


@inlined
def clear(block, first, last):
    for i in range(first, last, LANES):
        clear8(block, i)


@inlined
def load_block(source, side, q, first, width, block, base, wide):
    """Columns first..first+width of a side, zeros where it has none. A part that it has not is not looked at."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    row = 2 * wide
    whole = width == wide and step == 1
    clear(block, base + (count * row if whole else 0), base + size * row)
    for part in range(parts):
        to = base + part * wide
        if turned:
            turn_in(source, (part * q + first) * count, count, count, step, width, block, to, row)
            continue
        for i in range(size):
            at = (part * size + i) * q + first
            for c in range(width):
                block[to + i * row + c] = source[at + c]


@inlined
def store_block(block, base, wide, out, side, q, first, width):
    """The way back: rows in use of a block into columns first..first+width of a side."""
    count, step, size, parts, turned = side[0], side[1], side[2], side[3], side[4]
    row = 2 * wide
    for part in range(parts):
        start = base + part * wide
        if turned:
            turn_out(block, start, row, out, (part * q + first) * count, count, count, step, width)
            continue
        for i in range(size):
            to = (part * size + i) * q + first
            for c in range(width):
                out[to + c] = block[start + i * row + c]


@inlined
def expect(out, side, q, first, width):
    """Fetch memory of a side that is not turned, which will be written: its lines lie too far apart for processors to guess."""
    for i in range(2 * side[2]):
        for c in range(0, width, WIDTH):
            prefetch(out, i * q + first + c)


@spliced
def mix_chunk(step, chunk, chunks, rows, parts_in, parts_out, source, target, values, hold, span):
    """One factor on one of equal chunks of rows; source and target are (array, base, step, im) of all rows."""
    kind, s, blocks, offset = step[0], step[1], step[2], step[3]
    x, xb, xs, xi = source
    y, yb, ys, yi = target
    first = chunk * rows
    mix(
        kind, s, blocks // chunks, offset + 2 * first * kind, parts_in, parts_out, x, xb + first * xs, xs, xi,
        y, yb + first * ys, ys, yi, values, hold, span,
    )  # fmt: skip


@spliced
def forward_part(x, x_side, y, y_side, q, values, steps, runs, first_block, last_block, work, wide):
    """y = A x for some blocks of columns. work holds one block and the rows of the largest factor."""
    count, rows, row = len(steps), max(x_side[2], y_side[2]), 2 * wide
    hold, inside = work[rows * row :], (work, 0, row, wide)
    apart = rows * row if steps[0, 0] == DENSE else 0  # of a product that writes elsewhere than it reads
    for column in range(first_block * wide, min(q, last_block * wide), wide):
        width = min(wide, q - column)
        span, even = width + -width % WIDTH, width % WIDTH == 0
        direct = not y_side[4] and even  # the last factor writes to where y lies
        source, target = inside, (work, apart, row, wide)
        if direct:
            expect(y, y_side, q, column, span)
            target = (y, column, q, y_side[2] * q)
        if x_side[4] or not even:
            load_block(x, x_side, q, column, width, work, 0, wide)
        else:  # the first factor reads from where x lies
            source = (x, column, q, x_side[2] * q)
        for run in range(len(runs)):
            chunks, size = runs[run, 2], runs[run, 3]
            for chunk in range(chunks):
                for j in range(runs[run, 0], runs[run, 1]):
                    parts_in, parts_out = x_side[3] if j == 0 else 2, y_side[3] if j == count - 1 else 2
                    here, there = source if j == 0 else inside, target if j == count - 1 else inside
                    mix_chunk(steps[j], chunk, chunks, size, parts_in, parts_out, here, there, values, hold, span)
        if not direct:
            store_block(work, apart, wide, y, y_side, q, column, width)


@inlined
def seen_by(j, chunk, size, steps, source, work, row, wide):
    """Where what factor j sees lies: (array, base, step, im) of all rows. What only one chunk sees has its place as well."""
    if j == 0:
        return source
    base = steps[j, 4] * row
    return work, base - chunk * size * row if steps[j, 5] else base, row, wide


@spliced
def backward_part(g, y_side, x, x_side, out, q, values, grad, steps, runs, first_block, last_block, work, wide):
    """From g, the gradient of y = A x, and x for some blocks of columns: out = A^H g, and grad collects the factors' gradients.

    work holds the gradient, what factors see, and the rows of the largest factor. What a factor of a run sees within a chunk of
    rows is made when the chunk comes, and forgotten. out may be x, and grad or out empty.
    """
    count, rows, row = len(steps), max(x_side[2], y_side[2]), 2 * wide
    both = both_parts(wide)
    hold, inside = work[runs[0, 4] * row :], (work, 0, row, wide)
    apart = runs[0, 4] * row if steps[0, 0] == DENSE else 0
    for column in range(first_block * wide, min(q, last_block * wide), wide):
        width = min(wide, q - column)
        span, even = width + -width % WIDTH, width % WIDTH == 0
        source, slope, target = (work, rows * row, row, wide), inside, (work, apart, row, wide)
        direct = out.size and not x_side[4] and even
        if direct:
            expect(out, x_side, q, column, span)
            target = (out, column, q, x_side[2] * q)
        if grad.size:
            if x_side[4] or not even:
                load_block(x, x_side, q, column, width, work, rows * row, wide)
            else:
                source = (x, column, q, x_side[2] * q)
            for run in range(len(runs)):
                first, last, chunks, size = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
                end = last if run < len(runs) - 1 else first if chunks > 1 else last - 1
                for chunk in range(chunks):
                    for j in range(first, end):
                        parts = x_side[3] if j == 0 else both
                        here = seen_by(j, chunk, size, steps, source, work, row, wide)
                        there = seen_by(j + 1, chunk, size, steps, source, work, row, wide)
                        mix_chunk(steps[j], chunk, chunks, size, parts, both, here, there, values, hold, span)
        if y_side[4] or not even:
            load_block(g, y_side, q, column, width, work, 0, wide)
        else:
            slope = (g, column, q, y_side[2] * q)
        for run in range(len(runs) - 1, -1, -1):
            first, last, chunks, size = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
            for chunk in range(chunks):
                start = chunk * size
                if chunks > 1 and grad.size:
                    for j in range(first, last - 1):
                        parts = x_side[3] if j == 0 else both
                        here = seen_by(j, chunk, size, steps, source, work, row, wide)
                        there = seen_by(j + 1, chunk, size, steps, source, work, row, wide)
                        mix_chunk(steps[j], chunk, chunks, size, parts, both, here, there, values, hold, span)
                for j in range(last - 1, first - 1, -1):
                    parts_g, parts_x = y_side[3] if j == count - 1 else 2, x_side[3] if j == 0 else 2
                    g_, gb, gs, gi = slope if j == count - 1 else inside
                    x_, xb, xs, xi = seen_by(j, chunk, size, steps, source, work, row, wide)
                    o_, ob, os, oi = target if j == 0 else inside
                    back(
                        steps[j, 0], steps[j, 1], steps[j, 2] // chunks, steps[j, 3] + 2 * start * steps[j, 0], parts_g, parts_x,
                        g_, gb + start * gs, gs, gi, x_, xb + start * xs, xs, xi, o_, ob + start * os, os, oi,
                        values, grad, hold, span,
                    )  # fmt: skip
        if out.size and not direct:
            store_block(work, apart, wide, out, x_side, q, column, width)


@inlined
def cut(count, part, parts):
    """Where a part of so many blocks begins."""
    return count * part // parts


@inlined
def told(given, row):
    """What the words of both passes say; see `forward_columns`."""
    factors = words(row[AFTER + 6], 6 * row[AFTER + 7]).reshape((row[AFTER + 7], 6))
    runs = words(row[AFTER + 11], 5 * row[AFTER + 12]).reshape((row[AFTER + 12], 5))
    x, y, values = numbers(given, row[AFTER], 1), numbers(given, row[AFTER + 2], 1), numbers(given, row[AFTER + 5], 1)
    return x, words(row[AFTER + 1], 5), y, words(row[AFTER + 3], 5), row[AFTER + 4], values, factors, runs, row[AFTER + 10]


@spliced
def forward_columns(given, row):
    """Words: x, its side, y, its side, q, values, factors, how many, working memory, numbers of it per part, columns a block,
    runs, how many."""
    x, x_side, y, y_side, q, values, factors, runs, wide = told(given, row)
    parts, room = row[1], row[AFTER + 9]
    work, blocks, part = numbers(given, row[AFTER + 8], parts * room), -(-q // wide), next_part(row)
    while part < parts:
        own = work[part * room : (part + 1) * room]
        first, last = cut(blocks, part, parts), cut(blocks, part + 1, parts)
        forward_part(x, x_side, y, y_side, q, values, factors, runs, first, last, own, wide)
        part = next_part(row)


@spliced
def backward_columns(given, row):
    """The same with g in the place of y, then: the gradients of x and of the values, and how many numbers each has, or none."""
    x, x_side, g, y_side, q, values, factors, runs, wide = told(given, row)
    parts, room, each = row[1], row[AFTER + 9], row[AFTER + 16]
    work, blocks, part = numbers(given, row[AFTER + 8], parts * room), -(-q // wide), next_part(row)
    out, grad = numbers(given, row[AFTER + 13], row[AFTER + 14]), numbers(given, row[AFTER + 15], parts * each)
    while part < parts:
        own, sums = work[part * room : (part + 1) * room], grad[part * each : (part + 1) * each]
        first, last = cut(blocks, part, parts), cut(blocks, part + 1, parts)
        backward_part(g, y_side, x, x_side, out, q, values, sums, factors, runs, first, last, own, wide)
        part = next_part(row)
