"""Blocks of columns through the K-matrices of two dimensions, without leaving the cache between them. For numba.

Outside lie planes, (q, rows, numbers), real; in the domain their points lead, (2, n, p, q). M takes the last dimension of a plane
first, row by row, then the other one, point by point of the last; K goes the other way. Between both a block of `wide` columns is
a plane of its own: row i holds the real parts of its p points, `wide` numbers each, and then the imaginary ones.

A place is (array, base, step, im): where row 0 begins, how far the next one is, and the imaginary parts. A shape is eight numbers:
(rows of a plane, step between them in the first matrix, numbers of a row, step between them in the last matrix, points of the first
dimension in the domain, size of the last matrix outside, its points in the domain, size of the first matrix outside).
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.butterflies import back, both_parts, mix, one_part
from xdops.engine.kernels.columns import AFTER, clear, cut, turn_in, turn_out
from xdops.engine.kernels.compiling import called, inlined, spliced
from xdops.engine.kernels.mixrows import WIDTH
from xdops.engine.kernels.native import next_part, numbers, words
from xdops.engine.kernels.vectors import prefetch


@inlined
def rows_of(block, wide):
    """The place of a block."""
    return block, 0 * wide, 2 * wide, wide  # not a literal 0: its type is another, and would be compiled once more


@called
def mix_all(steps, values, parts_in, parts_out, source, target, block, wide, hold, span):
    """All factors: the first reads from source, the last writes to target, what lies between stays in the block."""
    count, inside = len(steps), rows_of(block, wide)
    for j in range(count):
        x, xb, xs, xi = source if j == 0 else inside
        y, yb, ys, yi = target if j == count - 1 else inside
        own_in, own_out = parts_in if j == 0 else 2, parts_out if j == count - 1 else 2
        kind, s, blocks, offset = steps[j, 0], steps[j, 1], steps[j, 2], steps[j, 3]
        mix(kind, s, blocks, offset, own_in, own_out, x, xb, xs, xi, y, yb, ys, yi, values, hold, span)


@spliced
def seen_by(j, source, seen, size, wide):
    """The place of what factor j sees."""
    return source if j == 0 else (seen, (j - 1) * size * 2 * wide, 2 * wide, wide)


@called
def see_all(steps, values, parts_in, source, seen, size, wide, hold, span):
    """Leaves in `seen`, of so many rows for each, what all factors but the first see."""
    both = both_parts(wide)
    for j in range(len(steps) - 1):
        x, xb, xs, xi = seen_by(j, source, seen, size, wide)
        y, yb, ys, yi = seen_by(j + 1, source, seen, size, wide)
        kind, s, blocks, offset = steps[j, 0], steps[j, 1], steps[j, 2], steps[j, 3]
        mix(kind, s, blocks, offset, parts_in if j == 0 else both, both, x, xb, xs, xi, y, yb, ys, yi, values, hold, span)


@called
def back_all(steps, values, grad, parts_g, parts_x, slope, source, seen, size, target, block, wide, hold, span):
    """The gradient at source, from that at the end, into target, which may be source; grad collects the factors'."""
    count, inside = len(steps), rows_of(block, wide)
    for j in range(count - 1, -1, -1):
        g, gb, gs, gi = slope if j == count - 1 else inside
        x, xb, xs, xi = seen_by(j, source, seen, size, wide)
        y, yb, ys, yi = target if j == 0 else inside
        own_g, own_x = parts_g if j == count - 1 else 2, parts_x if j == 0 else 2
        kind, s, blocks, offset = steps[j, 0], steps[j, 1], steps[j, 2], steps[j, 3]
        back(kind, s, blocks, offset, own_g, own_x, g, gb, gs, gi, x, xb, xs, xi, y, yb, ys, yi, values, grad, hold, span)


@called
def load_row(x, at, pitch, shape, width, block, wide):
    """One row of `width` planes to the rows of a block; the row begins at `at` in the first, and planes are `pitch` apart."""
    count, step, size, row = shape[2], shape[3], shape[5], 2 * wide
    clear(block, count * row if width == wide and step == 1 else 0, size * row)
    turn_in(x, at, pitch, count, step, width, block, 0, row)


@called
def load_point(x, point, q, column, width, n, points, block, wide):
    """One point of the last dimension in the domain, at all points of the other, to the rows of a block."""
    row = 2 * wide
    clear(block, 0, n * row)
    for part in range(2):
        for i in range(n):
            at = ((part * n + i) * points + point) * q + column
            for c in range(width):
                block[i * row + part * wide + c] = x[at + c]


@called
def store_point(block, wide, out, point, q, column, width, n, points):
    """The way back."""
    for part in range(2):
        for i in range(n):
            to = ((part * n + i) * points + point) * q + column
            for c in range(width):
                out[to + c] = block[i * 2 * wide + part * wide + c]


@inlined
def expect_point(out, point, q, column, span, n, points):
    """Fetch memory that will be written: its lines lie too far apart for processors to guess."""
    for i in range(2 * n):
        for c in range(0, span, WIDTH):
            prefetch(out, (i * points + point) * q + column + c)


@inlined
def longest_of(shape):
    """The most rows that a row or point takes in working memory."""
    return max(max(shape[4], shape[5]), max(shape[6], shape[7]))


@inlined
def rooms(work, shape, wide):
    """Working memory: the plane, a row or point as it comes, one as it goes, and what lies behind them."""
    longest, row = longest_of(shape), 2 * wide
    plane = shape[7] * shape[6] * row
    return work[:plane], work[plane:], work[plane + longest * row :], work[plane + 2 * longest * row :]


@inlined
def last_of_row(i, shape, wide, plane):
    """The place in a plane of row i of the first dimension: a row for every point of the last."""
    points = shape[6]
    return plane, i * points * 2 * wide, wide, points * wide


@inlined
def first_of_point(point, shape, wide, plane):
    """The place in a plane of one point of the last dimension: a row for every row of the first."""
    points = shape[6]
    return plane, point * wide, points * 2 * wide, points * wide


@spliced
def all_rows_in(x, column, width, shape, steps, values, plane, own, block, wide, hold, span):
    """The last dimension of all rows of the planes outside, into `plane`."""
    both = both_parts(wide)
    rows, every, count, points = shape[0], shape[1], shape[2], shape[6]
    one, line = one_part(wide), points * 2 * wide
    for i in range(shape[7]):
        if i % every or i // every >= rows:
            clear(plane, i * line, (i + 1) * line)
            continue
        load_row(x, (column * rows + i // every) * count, rows * count, shape, width, own, wide)
        place = last_of_row(i, shape, wide, plane)
        mix_all(steps, values, one, both, rows_of(own, wide), place, block, wide, hold, span)


@spliced
def point_source(y, point, q, column, width, shape, own, wide):
    """The place of one point in the domain: where it lies or, if columns do not fill vectors, a copy."""
    n, points = shape[4], shape[6]
    if width % WIDTH:
        load_point(y, point, q, column, width, n, points, own, wide)
        return rows_of(own, wide)
    return y, point * q + column, points * q, n * points * q


@spliced
def all_points_in(y, column, width, q, shape, steps, values, plane, own, block, wide, hold, span):
    """The first dimension of all points of the domain, into `plane`."""
    both = both_parts(wide)
    for point in range(shape[6]):
        source = point_source(y, point, q, column, width, shape, own, wide)
        mix_all(steps, values, both, both, source, first_of_point(point, shape, wide, plane), block, wide, hold, span)


@spliced
def enter_block(x, y, q, column, width, shape, first, first_values, last, last_values, work, wide):
    """y = M x for a block of columns."""
    both = both_parts(wide)
    n, points, span = shape[4], shape[6], width + -width % WIDTH
    plane, own, block, hold = rooms(work, shape, wide)
    all_rows_in(x, column, width, shape, last, last_values, plane, own, block, wide, hold, span)
    for point in range(points):
        source, inside = first_of_point(point, shape, wide, plane), rows_of(block, wide)
        if width % WIDTH:
            mix_all(first, first_values, both, both, source, inside, block, wide, hold, span)
            store_point(block, wide, y, point, q, column, width, n, points)
        else:
            expect_point(y, point, q, column, span, n, points)
            target = (y, point * q + column, points * q, n * points * q)
            mix_all(first, first_values, both, both, source, target, block, wide, hold, span)


@spliced
def leave_block(x, y, q, column, width, shape, first, first_values, last, last_values, work, wide):
    """x = Re(K y) for a block of columns."""
    both = both_parts(wide)
    rows, every, count = shape[0], shape[1], shape[2]
    span, one = width + -width % WIDTH, one_part(wide)
    plane, own, block, hold = rooms(work, shape, wide)
    all_points_in(y, column, width, q, shape, first, first_values, plane, own, block, wide, hold, span)
    for i in range(rows):
        source = last_of_row(i * every, shape, wide, plane)
        mix_all(last, last_values, both, one, source, rows_of(block, wide), block, wide, hold, span)
        turn_out(block, 0, 2 * wide, x, (column * rows + i) * count, rows * count, count, shape[3], width)


@spliced
def enter_back_block(
    x, g, out, q, column, width, shape, first, first_values, first_grad, last, last_values, last_grad, work, wide
):  # fmt: skip
    """From the gradient g of y = M x and x: out = Re(M^H g), unless it is empty, and the gradients of the factors, likewise."""
    both = both_parts(wide)
    rows, every, count, points = shape[0], shape[1], shape[2], shape[6]
    span, longest, one = width + -width % WIDTH, longest_of(shape), one_part(wide)
    plane, own, block, rest = rooms(work, shape, wide)
    seen, hold = rest, rest[max(len(first), len(last)) * longest * 2 * wide :]
    if first_grad.size:
        all_rows_in(x, column, width, shape, last, last_values, plane, own, block, wide, hold, span)
    for point in range(points):
        here = first_of_point(point, shape, wide, plane)
        if first_grad.size:
            see_all(first, first_values, both, here, seen, longest, wide, hold, span)
        slope = point_source(g, point, q, column, width, shape, block, wide)
        back_all(first, first_values, first_grad, both, both, slope, here, seen, longest, here, block, wide, hold, span)
    for i in range(rows):
        source, inside = rows_of(own, wide), rows_of(block, wide)
        if last_grad.size:
            load_row(x, (column * rows + i) * count, rows * count, shape, width, own, wide)
            see_all(last, last_values, one, source, seen, longest, wide, hold, span)
        slope = last_of_row(i * every, shape, wide, plane)
        back_all(last, last_values, last_grad, both, one, slope, source, seen, longest, inside, block, wide, hold, span)
        if out.size:
            turn_out(block, 0, 2 * wide, out, (column * rows + i) * count, rows * count, count, shape[3], width)


@spliced
def leave_back_block(
    g, y, out, q, column, width, shape, first, first_values, first_grad, last, last_values, last_grad, work, wide
):  # fmt: skip
    """From the gradient g of x = Re(K y) and y: out = K^H g, which may be y, and the gradients of the factors, unless empty."""
    both = both_parts(wide)
    rows, every, count, n, points = shape[0], shape[1], shape[2], shape[4], shape[6]
    span, longest, one = width + -width % WIDTH, longest_of(shape), one_part(wide)
    plane, own, block, rest = rooms(work, shape, wide)
    seen, hold = rest, rest[max(len(first), len(last)) * longest * 2 * wide :]
    if first_grad.size:
        all_points_in(y, column, width, q, shape, first, first_values, plane, own, block, wide, hold, span)
    line, inside = points * 2 * wide, rows_of(block, wide)
    for i in range(shape[7]):
        if i % every or i // every >= rows:
            clear(plane, i * line, (i + 1) * line)
            continue
        here = last_of_row(i, shape, wide, plane)
        if last_grad.size:
            see_all(last, last_values, both, here, seen, longest, wide, hold, span)
        load_row(g, (column * rows + i // every) * count, rows * count, shape, width, block, wide)
        back_all(last, last_values, last_grad, one, both, inside, here, seen, longest, here, block, wide, hold, span)
    for point in range(points):
        slope, source = first_of_point(point, shape, wide, plane), inside
        if first_grad.size:
            source = point_source(y, point, q, column, width, shape, own, wide)
            see_all(first, first_values, both, source, seen, longest, wide, hold, span)
        if width % WIDTH:
            back_all(first, first_values, first_grad, both, both, slope, source, seen, longest, inside, block, wide, hold, span)
            store_point(block, wide, out, point, q, column, width, n, points)
        else:
            expect_point(out, point, q, column, span, n, points)
            target = (out, point * q + column, points * q, n * points * q)
            back_all(first, first_values, first_grad, both, both, slope, source, seen, longest, target, block, wide, hold, span)


@inlined
def factors(row, at):
    """The factors of a matrix, whose words begin here: their address and how many there are."""
    return words(row[at], 4 * row[at + 1]).reshape((row[at + 1], 4))


@inlined
def told(given, row):
    """What the words of both passes say; see `forward_planes`."""
    planes, domain = numbers(given, row[AFTER], 1), numbers(given, row[AFTER + 1], 1)
    first, first_values = factors(row, AFTER + 8), numbers(given, row[AFTER + 10], 1)
    last, last_values = factors(row, AFTER + 11), numbers(given, row[AFTER + 13], 1)
    return planes, domain, words(row[AFTER + 3], 8), row[AFTER + 4], row[AFTER + 5], first, first_values, last, last_values


@spliced
def forward_planes(given, row):
    """Words: planes, domain, whether to leave it, shape, q, columns a block, working memory, numbers of it per part, factors of
    the first dimension, how many, their values, and the same of the last."""
    planes, domain, shape, q, wide, first, first_values, last, last_values = told(given, row)
    parts, leaving, room = row[1], row[AFTER + 2], row[AFTER + 7]
    work, blocks, part = numbers(given, row[AFTER + 6], parts * room), -(-q // wide), next_part(row)
    while part < parts:
        own = work[part * room : (part + 1) * room]
        for block in range(cut(blocks, part, parts), cut(blocks, part + 1, parts)):
            column = block * wide
            width = min(wide, q - column)
            if leaving:
                leave_block(planes, domain, q, column, width, shape, first, first_values, last, last_values, own, wide)
            else:
                enter_block(planes, domain, q, column, width, shape, first, first_values, last, last_values, own, wide)
        part = next_part(row)


@spliced
def backward_planes(given, row):
    """The same with a gradient in place of one of both, and then: where the other's goes, how many numbers it has, and for each
    dimension where the gradients of its values go, and how many numbers a part of them has; none where nobody wants them."""
    planes, domain, shape, q, wide, first, first_values, last, last_values = told(given, row)
    parts, leaving, room = row[1], row[AFTER + 2], row[AFTER + 7]
    work, blocks, part = numbers(given, row[AFTER + 6], parts * room), -(-q // wide), next_part(row)
    out, each, more = numbers(given, row[AFTER + 14], row[AFTER + 15]), row[AFTER + 17], row[AFTER + 19]
    grads, others = numbers(given, row[AFTER + 16], parts * each), numbers(given, row[AFTER + 18], parts * more)
    while part < parts:
        own = work[part * room : (part + 1) * room]
        a, b = grads[part * each : (part + 1) * each], others[part * more : (part + 1) * more]
        for block in range(cut(blocks, part, parts), cut(blocks, part + 1, parts)):
            column = block * wide
            width = min(wide, q - column)
            if leaving:
                leave_back_block(
                    planes, domain, out, q, column, width, shape, first, first_values, a, last, last_values, b, own, wide
                )  # fmt: skip
            else:
                enter_back_block(
                    planes, domain, out, q, column, width, shape, first, first_values, a, last, last_values, b, own, wide
                )  # fmt: skip
        part = next_part(row)
