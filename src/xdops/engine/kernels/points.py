"""Channel mixing for small batches: the filters of a point are made from its taps, used and forgotten, in the cache. For numba.

At point (p, q) of a grid the filters are W = sum_j L[q, j] V_j[p], and y_b = W^T x_b for every example b. In the backward pass

    dx_b = conj(W) g_b,    G = sum_b conj(x_b) g_b^T,    dV_j[p] = sum_q conj(L[q, j]) G,    dL[q, j] = sum_p <V_j[p], G>.

V is planar, (2, n_1, k, rows, columns), with channels padded by zeros to multiples of eight. L is interleaved pairs, (n_2, k, 2),
or (n_1, n_2, k, 2) where every p has its own, `apart` pairs after those of the one before. Inputs and outputs are planar,
(2, n_1, n_2, batch, channels). Imaginary parts lie `im` numbers after real ones.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xdops.engine.kernels.compiling import inlined, sources
from xdops.engine.kernels.native import OWN, Native, integers, next_part, numbers
from xdops.engine.kernels.vectors import LANES, Emitter

Pair = list[Any]  # real and imaginary part


class _Loops(Emitter):
    """Sums over loops, kept in registers."""

    def sums_over(self, count: Any, vectors: int, more: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """Zeros, replaced count times by what `more` makes of i and of themselves."""
        totals = [cgutils.alloca_once(self.builder, self.vector) for _ in range(vectors)]
        for total in totals:
            self.builder.store(self.zero(), total)
        with cgutils.for_range(self.builder, count) as loop:
            for total, new in zip(totals, more(loop.index, [self.builder.load(t) for t in totals]), strict=True):
                self.builder.store(new, total)
        return [self.builder.load(total) for total in totals]

    def step(self, start: Any, i: Any, size: Any) -> Any:
        """start + i size."""
        return self.builder.add(start, self.builder.mul(i, size))

    def pair(self, data: Any, place: Any, im: Any) -> Pair:
        return [self.load(data, place), self.load(data, self.builder.add(place, im))]

    def number(self, data: Any, place: Any, im: Any) -> Pair:
        return [self.splat(data, place), self.splat(data, self.builder.add(place, im))]

    def write(self, data: Any, place: Any, im: Any, values: Pair) -> None:
        self.store(data, place, values[0])
        self.store(data, self.builder.add(place, im), values[1])

    def product(self, a: Pair, b: Pair, onto: Pair) -> Pair:
        """onto + conj(a) b."""
        real, imaginary = self.fma(a[0], b[0], onto[0]), self.fma(a[0], b[1], onto[1])
        return [self.fma(a[1], b[1], real), self.fnma(a[1], b[0], imaginary)]

    def products_over(
        self, count: Any, several: int, factors: Callable[[Any], tuple[list[Pair], Pair]], conjugate: bool = False
    ) -> list[Pair]:
        """The sums of a b, or of conj(a) b, for several a. Four products each are summed by themselves: none waits for another."""

        def more(i: Any, totals: list[Any]) -> list[Any]:
            found, b = factors(i)
            pairs = [pair for a in found for pair in ((a[0], b[0]), (a[0], b[1]), (a[1], b[1]), (a[1], b[0]))]
            return [self.fma(u, v, total) for (u, v), total in zip(pairs, totals, strict=True)]

        totals = self.sums_over(count, 4 * several, more)
        return [self._joined(totals[4 * e : 4 * e + 4], conjugate) for e in range(several)]

    def _joined(self, totals: list[Any], conjugate: bool) -> Pair:
        rr, ri, ii, ir = totals
        subtracted = self.negative(ir if conjugate else ii)
        return [self.add(rr, ii), self.add(ri, subtracted)] if conjugate else [self.add(rr, subtracted), self.add(ri, ir)]

    def product_over(self, count: Any, factors: Callable[[Any], tuple[Pair, Pair]], conjugate: bool = False) -> Pair:
        """The sum of a b, or of conj(a) b, for one a."""

        def one(i: Any) -> tuple[list[Pair], Pair]:
            a, b = factors(i)
            return [a], b

        return self.products_over(count, 1, one, conjugate)[0]


def _code(given: tuple[Any, ...], write: Callable[..., None]) -> Any:
    """What numba wants of an intrinsic: its signature, of arrays and whole numbers, and who writes its code."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Loops(context, builder, next(t.dtype for t in signature.args if isinstance(t, types.Array)))
        write(emit, *(emit.data(t, a) if isinstance(t, types.Array) else a for t, a in zip(signature.args, args, strict=True)))
        return context.get_dummy_value()

    return types.void(*(t if isinstance(t, types.Array) else types.intp for t in given)), codegen


@intrinsic
def weigh(typingctx, V, at, im, size, taps, L, first, W, to, w_im):
    """Eight numbers of W = sum_j L_j V_j."""

    def write(emit, V, at, im, size, taps, L, first, W, to, w_im):
        one, two = (emit.plus(emit.builder.sub(first, first), n) for n in (1, 2))

        def factors(j):
            return emit.number(L, emit.step(first, j, two), one), emit.pair(V, emit.step(at, j, size), im)

        emit.write(W, to, w_im, emit.product_over(taps, factors))

    return _code((V, at, im, size, taps, L, first, W, to, w_im), write)


def _mixer(several: int) -> Any:
    """For so many examples at a time: filters that are loaded once serve all of them."""

    @intrinsic
    def mix_channels(typingctx, x, at, step, im, W, w, w_im, columns, rows, y, to, y_step, y_im):
        """Eight outputs, y = sum_i x_i W_i, of examples that lie `step` apart and whose outputs lie `y_step` apart."""

        def write(emit, x, at, step, im, W, w, w_im, columns, rows, y, to, y_step, y_im):
            def factors(i):
                found, place = [], emit.builder.add(at, i)
                for _ in range(several):
                    found.append(emit.number(x, place, im))
                    place = emit.builder.add(place, step)
                return found, emit.pair(W, emit.step(w, i, columns), w_im)

            for values in emit.products_over(rows, several, factors):
                emit.write(y, to, y_im, values)
                to = emit.builder.add(to, y_step)

        return _code((x, at, step, im, W, w, w_im, columns, rows, y, to, y_step, y_im), write)

    return mix_channels


mix_one, mix_two = _mixer(1), _mixer(2)


@intrinsic
def mix_channels_back(typingctx, g, at, im, W, w, w_im, columns, blocks, out, to, out_im):
    """The gradients of eight inputs, out_i = sum_o conj(W_io) g_o."""

    def write(emit, g, at, im, W, w, w_im, columns, blocks, out, to, out_im):
        lanes = emit.plus(emit.builder.sub(at, at), LANES)

        def more(block, totals):
            seen, place = emit.pair(g, emit.step(at, block, lanes), im), emit.step(w, block, lanes)
            new = []
            for i in range(LANES):
                new += emit.product(emit.pair(W, place, w_im), seen, totals[2 * i : 2 * i + 2])
                place = emit.builder.add(place, columns)
            return new

        totals = emit.sums_over(blocks, 2 * LANES, more)
        emit.write(out, to, out_im, [emit.sums(totals[::2]), emit.sums(totals[1::2])])

    return _code((g, at, im, W, w, w_im, columns, blocks, out, to, out_im), write)


@intrinsic
def filter_gradient(typingctx, x, at, im, rows, g, g_at, g_im, columns, batch, G, to, G_im):
    """Eight numbers of G = sum_b conj(x_b) g_b^T, in the rows of two inputs."""

    def write(emit, x, at, im, rows, g, g_at, g_im, columns, batch, G, to, G_im):
        def factors(b):
            place = emit.step(at, b, rows)
            found = [emit.number(x, emit.plus(place, i), im) for i in range(2)]
            return found, emit.pair(g, emit.step(g_at, b, columns), g_im)

        for values in emit.products_over(batch, 2, factors, conjugate=True):
            emit.write(G, to, G_im, values)
            to = emit.builder.add(to, columns)

    return _code((x, at, im, rows, g, g_at, g_im, columns, batch, G, to, G_im), write)


@intrinsic
def tap_gradient(typingctx, G, G_im, V, at, im, blocks, L, first, grad_V, grad_L, to):
    """dV_j += conj(L_j) G, and dL_j += <V_j, G>, the latter in eight parts."""

    def write(emit, G, G_im, V, at, im, blocks, L, first, grad_V, grad_L, to):
        zero = emit.builder.sub(at, at)
        one, lanes = emit.plus(zero, 1), emit.plus(zero, LANES)
        weight = emit.number(L, first, one)

        def factors(block):
            slope, place = emit.pair(G, emit.step(zero, block, lanes), G_im), emit.step(at, block, lanes)
            emit.write(grad_V, place, im, emit.product(weight, slope, emit.pair(grad_V, place, im)))
            return emit.pair(V, place, im), slope

        found = emit.product_over(blocks, factors, conjugate=True)
        before = emit.pair(grad_L, to, lanes)
        emit.write(grad_L, to, lanes, [emit.add(a, b) for a, b in zip(before, found, strict=True)])

    return _code((G, G_im, V, at, im, blocks, L, first, grad_V, grad_L, to), write)


@inlined
def padded(source, at, im, batch, channels, out, wide):
    """Where the channels of all examples at one point lie with zeros after them: `out` (2, batch, wide), if there have to be."""
    if channels == wide:
        return source, at, im
    for part in range(2):
        for b in range(batch):
            place, start = (part * batch + b) * wide, at + part * im + b * channels
            for c in range(channels):
                out[place + c] = source[start + c]
            for c in range(channels, wide):
                out[place + c] = 0
    return out, 0, batch * wide


@inlined
def cut(source, at, source_im, out, to, im, channels):
    """The way back, for one example."""
    for c in range(channels):
        out[to + c] = source[at + c]
        out[to + im + c] = source[at + source_im + c]


@inlined
def filters_at(V, L, p, first, n_1, taps, size, W):
    """W = sum_j L_j V_j[p], with L_j from pair `first` on."""
    for c in range(0, size, LANES):
        weigh(V, p * taps * size + c, n_1 * taps * size, size, taps, L, 2 * first, W, c, size)


@inlined
def forward_part(V, L, x, y, sizes, first, last, work):
    """Outputs at the points p = first..last; sizes are (n_1, n_2, k, batch, c_in, c_out, rows, columns, apart)."""
    n_1, n_2, taps, batch, c_in, c_out, rows, columns, apart = sizes
    size, grid = rows * columns, n_1 * n_2 * batch
    W, X, Y = work[: 2 * size], work[2 * size : 2 * size + 2 * batch * rows], work[2 * size + 2 * batch * rows :]
    for p in range(first, last):
        for q in range(n_2):
            at = (p * n_2 + q) * batch
            filters_at(V, L, p, p * apart + q * taps, n_1, taps, size, W)
            seen, start, im = padded(x, at * c_in, grid * c_in, batch, c_in, X, rows)
            out, place, out_im = (y, at * c_out, grid * c_out) if c_out == columns else (Y, 0, batch * columns)
            for c in range(0, columns, LANES):
                for b in range(0, batch - 1, 2):
                    mix_two(
                        seen, start + b * rows, rows, im, W, c, size, columns, c_in,
                        out, place + b * columns + c, columns, out_im,
                    )  # fmt: skip
                if batch % 2:
                    b = batch - 1
                    mix_one(
                        seen, start + b * rows, rows, im, W, c, size, columns, c_in,
                        out, place + b * columns + c, columns, out_im,
                    )  # fmt: skip
            if c_out != columns:
                for b in range(batch):
                    cut(Y, b * columns, batch * columns, y, (at + b) * c_out, grid * c_out, c_out)


@inlined
def backward_part(V, L, x, g, out, grad_V, grad_L, sizes, first, last, work):
    """Gradients of the inputs and of V at these points, and what they add to that of L, with eight parts of each, to be summed."""
    n_1, n_2, taps, batch, c_in, c_out, rows, columns, apart = sizes
    size, grid = rows * columns, n_1 * n_2 * batch
    W, G, rest = work[: 2 * size], work[2 * size : 4 * size], work[4 * size :]
    X, S, Y = (
        rest[: 2 * batch * rows],
        rest[2 * batch * rows : 2 * batch * (rows + columns)],
        rest[2 * batch * (rows + columns) :],
    )
    for p in range(first, last):
        for q in range(n_2):
            at = (p * n_2 + q) * batch
            filters_at(V, L, p, p * apart + q * taps, n_1, taps, size, W)
            seen, start, im = padded(x, at * c_in, grid * c_in, batch, c_in, X, rows)
            slope, slope_start, slope_im = padded(g, at * c_out, grid * c_out, batch, c_out, S, columns)
            to, place, to_im = (out, at * c_in, grid * c_in) if c_in == rows else (Y, 0, batch * rows)
            for b in range(batch):
                for i in range(0, rows, LANES):
                    mix_channels_back(
                        slope, slope_start + b * columns, slope_im, W, i * columns, size, columns, columns // LANES,
                        to, place + b * rows + i, to_im,
                    )  # fmt: skip
                if c_in != rows:
                    cut(Y, b * rows, batch * rows, out, (at + b) * c_in, grid * c_in, c_in)
            for i in range(0, c_in, 2):
                for c in range(0, columns, LANES):
                    filter_gradient(
                        seen, start + i, im, rows, slope, slope_start + c, slope_im, columns, batch, G, i * columns + c, size
                    )  # fmt: skip
            for j in range(taps):
                place, pair = (p * taps + j) * size, p * apart + q * taps + j
                tap_gradient(
                    G, size, V, place, n_1 * taps * size, c_in * columns // LANES, L, 2 * pair, grad_V, grad_L, pair * 2 * LANES
                )  # fmt: skip


@inlined
def sizes_of(row):
    at = OWN + 6
    return row[at], row[at + 1], row[at + 2], row[at + 3], row[at + 4], row[at + 5], row[at + 6], row[at + 7], row[at + 8]


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of."""

    def forward(given):
        """Words: V, L, x, y, working memory, numbers of it per part, and the sizes."""
        _ = kept_under
        row = integers(given)
        V, L = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1)
        x, y = numbers(given, row[OWN + 2], 1), numbers(given, row[OWN + 3], 1)
        parts, room, sizes = row[1], row[OWN + 5], sizes_of(row)
        work = numbers(given, row[OWN + 4], parts * room)
        part = next_part(row)
        while part < parts:
            first, last = sizes[0] * part // parts, sizes[0] * (part + 1) // parts
            forward_part(V, L, x, y, sizes, first, last, work[part * room : (part + 1) * room])
            part = next_part(row)

    def backward(given):
        """The same with g in the place of y, then: the gradients of x and V, and those of L, one for every part, or for every p."""
        _ = kept_under
        row = integers(given)
        V, L = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1)
        x, g = numbers(given, row[OWN + 2], 1), numbers(given, row[OWN + 3], 1)
        parts, room, sizes = row[1], row[OWN + 5], sizes_of(row)
        work = numbers(given, row[OWN + 4], parts * room)
        out, grad_V = numbers(given, row[OWN + 15], 1), numbers(given, row[OWN + 16], 1)
        each = 0 if sizes[8] else sizes[1] * sizes[2] * 2 * LANES
        grad_L = numbers(given, row[OWN + 17], parts * each if each else sizes[0] * sizes[8] * 2 * LANES)
        part = next_part(row)
        while part < parts:
            first, last = sizes[0] * part // parts, sizes[0] * (part + 1) // parts
            own, sums = work[part * room : (part + 1) * room], grad_L[part * each :]
            backward_part(V, L, x, g, out, grad_V, sums, sizes, first, last, own)
            part = next_part(row)

    return Native(forward), Native(backward)


forward, backward = _kernels(sources())
