"""A few vectors through a few butterflies, where calls cost far more than arithmetic: one call forward, one backward. For numba.

`stages` lists the factors in the order they are applied, a row (start, blocks, stride, radix, transposed) each: start is where its
matrices (blocks, stride, r, r) begin in `values`.
"""

from xdops.engine.kernels.compiling import kernel


@kernel
def through(values, stages, x, seen):  # type: ignore[no-untyped-def]
    """x (count, n) becomes its product; seen (stages, count, n) keeps what each stage was given."""
    count, n = x.shape
    for q in range(stages.shape[0]):
        start, blocks, s, r, transposed = stages[q, 0], stages[q, 1], stages[q, 2], stages[q, 3], stages[q, 4]
        by_i, by_l = (1, r) if transposed else (r, 1)
        for c in range(count):
            for p in range(n):
                seen[q, c, p] = x[c, p]
            for b in range(blocks):
                for o in range(s):
                    T = start + (b * s + o) * r * r
                    for i in range(r):
                        total = values[T + i * by_i] * seen[q, c, b * r * s + o]
                        for el in range(1, r):
                            total += values[T + i * by_i + el * by_l] * seen[q, c, (b * r + el) * s + o]
                        x[c, (b * r + i) * s + o] = total


@kernel
def back(values, stages, seen, g, given, gradient):  # type: ignore[no-untyped-def]
    """g (count, n), the gradient of the products, becomes that of the vectors; those of the values are added to `gradient`."""
    count, n = g.shape
    for q in range(stages.shape[0] - 1, -1, -1):
        start, blocks, s, r, transposed = stages[q, 0], stages[q, 1], stages[q, 2], stages[q, 3], stages[q, 4]
        by_i, by_l = (1, r) if transposed else (r, 1)
        for c in range(count):
            for p in range(n):
                given[p] = g[c, p]
            for b in range(blocks):
                for o in range(s):
                    T = start + (b * s + o) * r * r
                    for el in range(r):
                        at = (b * r + el) * s + o
                        x = seen[q, c, at].conjugate()
                        total = x * 0
                        for i in range(r):
                            slope = given[(b * r + i) * s + o]
                            place = T + i * by_i + el * by_l
                            gradient[place] += slope * x
                            total += values[place].conjugate() * slope
                        g[c, at] = total
