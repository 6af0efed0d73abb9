"""K diag(L_j) for every tap j, as real parts a_j and negated imaginary parts b_j, and the way back. For numba.

    a_j = K_0 L_0j - K_1 L_1j,                      b_j = -(K_0 L_1j + K_1 L_0j)
    dK_0 = sum_j da_j L_0j - db_j L_1j,             dK_1 = -sum_j (da_j L_1j + db_j L_0j)
    dL_0j = sum over rows of da_j K_0 - db_j K_1,   dL_1j = -(that of da_j K_1 + db_j K_0)

K is planar, (2, rows, n), and so is L, (2, k, n): imaginary parts lie `im` numbers after real ones. a and b are (k, rows, 2, n).
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any

from numba import types
from numba.extending import intrinsic

from xdops.engine.kernels.compiling import inlined, sources
from xdops.engine.kernels.mixrows import WIDTH, in_columns
from xdops.engine.kernels.native import OWN, Native, integers, next_part, numbers
from xdops.engine.kernels.vectors import Emitter


class _Row:
    """Vectors of one row of a planar array."""

    def __init__(self, emit: Emitter, data: Any, at: Any, im: Any) -> None:
        self.emit, self.data, self.starts = emit, data, (at, emit.builder.add(at, im))

    def load(self, column: Any) -> list[Any]:
        return [self.emit.load(self.data, self.emit.builder.add(start, column)) for start in self.starts]

    def store(self, column: Any, values: list[Any]) -> None:
        for start, value in zip(self.starts, values, strict=True):
            self.emit.store(self.data, self.emit.builder.add(start, column), value)


def _rows(emit: Emitter, signature: Any, args: Any) -> list[_Row]:
    """Of arguments that come in threes: an array, where the row begins, how far its imaginary part is."""
    return [_Row(emit, emit.data(signature.args[i], args[i]), args[i + 1], args[i + 2]) for i in range(0, len(args) - 1, 3)]


@intrinsic
def scale(typingctx, K, k_at, k_im, L, l_at, l_im, out, at, im, width):
    """A row of a_j and b_j."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, K.dtype, wide=True)
        of_K, of_L, made = _rows(emit, signature, args)
        with in_columns(emit, args[-1]) as column:
            (k0, k1), (l0, l1) = of_K.load(column), of_L.load(column)
            a = emit.fnma(k1, l1, emit.multiply(k0, l0))
            b = emit.fnma(k1, l0, emit.negative(emit.multiply(k0, l1)))
            made.store(column, [a, b])
        return context.get_dummy_value()

    i = types.intp
    return types.void(K, i, i, L, i, i, out, i, i, i), codegen


@intrinsic
def scale_back(typingctx, g, at, im, K, k_at, k_im, L, l_at, l_im, grad_K, dk_at, dk_im, grad_L, dl_at, dl_im, width):
    """What the gradient of a row of a_j and b_j adds to those of K and L."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, g.dtype, wide=True)
        slopes, of_K, of_L, to_K, to_L = _rows(emit, signature, args)

        def add(row: _Row, column: Any, a: Any, b: Any, factor: list[Any]) -> None:
            real, imaginary = row.load(column)
            real = emit.fnma(b, factor[1], emit.fma(a, factor[0], real))
            row.store(column, [real, emit.fnma(b, factor[0], emit.fnma(a, factor[1], imaginary))])

        with in_columns(emit, args[-1]) as column:
            a, b = slopes.load(column)
            add(to_K, column, a, b, of_L.load(column))
            add(to_L, column, a, b, of_K.load(column))
        return context.get_dummy_value()

    i = types.intp
    return types.void(g, i, i, K, i, i, L, i, i, grad_K, i, i, grad_L, i, i, i), codegen


@inlined
def forward_rows(K, L, out, sizes, first, last):
    """These rows of a and b; sizes are (rows, n, k, and how far imaginary parts of K are)."""
    rows, n, taps, im = sizes
    whole = n - n % WIDTH
    for t in range(first, last):
        for j in range(taps):
            at, to = t * n, (j * rows + t) * 2 * n
            scale(K, at, im, L, j * n, taps * n, out, to, n, whole)
            for f in range(whole, n):
                k0, k1, l0, l1 = K[at + f], K[at + im + f], L[j * n + f], L[(taps + j) * n + f]
                out[to + f] = k0 * l0 - k1 * l1
                out[to + n + f] = -(k0 * l1 + k1 * l0)


@inlined
def backward_rows(g, K, L, grad_K, grad_L, sizes, first, last):
    """These rows of K's gradient, and what they add to that of L, (2, k, n)."""
    rows, n, taps, im = sizes
    whole = n - n % WIDTH
    for t in range(first, last):
        at = t * n
        for f in range(n):
            grad_K[at + f] = 0
            grad_K[at + im + f] = 0
        for j in range(taps):
            place = (j * rows + t) * 2 * n
            scale_back(g, place, n, K, at, im, L, j * n, taps * n, grad_K, at, im, grad_L, j * n, taps * n, whole)
            for f in range(whole, n):
                a, b = g[place + f], g[place + n + f]
                k0, k1, l0, l1 = K[at + f], K[at + im + f], L[j * n + f], L[(taps + j) * n + f]
                grad_K[at + f] += a * l0 - b * l1
                grad_K[at + im + f] -= a * l1 + b * l0
                grad_L[j * n + f] += a * k0 - b * k1
                grad_L[(taps + j) * n + f] -= a * k1 + b * k0


@inlined
def sizes_of(row):
    at = OWN + 3
    return row[at], row[at + 1], row[at + 2], row[at + 3]


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of."""

    def forward(given):
        """Words: K, L, a and b, and the sizes."""
        _ = kept_under
        row = integers(given)
        K, L, out = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1), numbers(given, row[OWN + 2], 1)
        parts, sizes = row[1], sizes_of(row)
        part = next_part(row)
        while part < parts:
            forward_rows(K, L, out, sizes, sizes[0] * part // parts, sizes[0] * (part + 1) // parts)
            part = next_part(row)

    def backward(given):
        """Words: K, L, the gradients of a and b, the sizes, then: the gradient of K, and those of L, one for every part."""
        _ = kept_under
        row = integers(given)
        K, L, g = numbers(given, row[OWN], 1), numbers(given, row[OWN + 1], 1), numbers(given, row[OWN + 2], 1)
        parts, sizes = row[1], sizes_of(row)
        each = 2 * sizes[1] * sizes[2]
        grad_K, grad_L = numbers(given, row[OWN + 7], 1), numbers(given, row[OWN + 8], parts * each)
        part = next_part(row)
        while part < parts:
            own = grad_L[part * each : (part + 1) * each]
            backward_rows(g, K, L, grad_K, own, sizes, sizes[0] * part // parts, sizes[0] * (part + 1) // parts)
            part = next_part(row)

    return Native(forward), Native(backward)


forward, backward = _kernels(sources())
