"""Where a layer's inputs, filter taps and outputs sit in one dimension of an operation's grid of n points.

A layer computes y[t] = sum_j w_j x[t + q_j] over tap positions q_j. Reading all positions modulo n, with a change of sign in the
half domain (`domains`), it is one circular correlation of size n: inputs stand at columns 0, step, 2 step, ... of M, outputs are
rows 0, stride, 2 stride, ... of K, and L knows the tap positions.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from xdops.engine.geometry import Line
from xdops.errors import XDError
from xdops.matrices.radices import MAX_RADIX, cheapest_size, power_of_two, prime_factors, smooth_size

#: How an operation's size is chosen: the one of least cost, the smallest with small factors, or the next power of two.
SizeRule = Literal["cheapest", "smooth", "power"]


@dataclass(frozen=True)
class Axis(Line):
    """One dimension, with the inputs that it takes. out(m) = ((m - 1) step + growth) // stride + 1 outputs for m inputs.

    Where the layer pads with zeros, taps reach `before` points before the first input and `after` points past the last output's
    own: these points must be free of inputs, modulo n too, or outputs would see inputs from the other end.
    """

    before: int = 0
    after: int = 0

    @property
    def longest(self) -> int:
        """The length of the longest input."""
        room = self.size if self.wraps else (self.size - 1) // self.step + 1 - sum(self.pad)
        return next(m for m in range(room, 0, -1) if self._fits(m))

    def _fits(self, m: int) -> bool:
        """Whether inputs and outputs leave free what the taps reach."""
        inputs, outputs = (m - 1) * self.step + 1, (self.out(m) - 1) * self.stride + 1
        return inputs + self.before <= self.size and outputs + self.after <= self.size

    def check(self, m: int, dim: int) -> None:
        """Refuse what does not fit, naming both sizes."""
        low, high = self.padding(m)
        need = (m + low + high - 1) * self.step + 1
        if need > self.size and self.wraps:
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}, {need} with its circular padding",
                f"{self.size}, the operation's own period, or at most {self.size - low - high}, which leaves room for the padding",
                f"an operation of another size, e.g. from_conv(conv, {self.size}, size={self.size + low + high})",
            )
        if need > self.size:
            padded = f" ({need} with its padding and spacing)" if need != m else ""
            raise XDError(
                f"an input of length {m}{padded} in spatial dimension {dim}",
                f"at most {self.size}, the operation's size there",
                f"an operation made for it: from_conv(conv, input_size={m}), or convert_ with an example of length {m}",
            )
        if m < 1 or self.out(m) < 1:
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}",
                f"at least {max(1, -(self.growth // self.step) + 1)}, or there is no output",
                "a longer input, or more padding",
            )
        if (self.out(m) - 1) * self.stride >= self.size:
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}, with {self.out(m)} outputs at stride {self.stride}",
                f"outputs within the operation's {self.size} rows",
                f"a larger operation: from_conv(conv, input_size={m}, size={(self.out(m) - 1) * self.stride + 1}), or more",
            )
        if not self._fits(m):
            raise XDError(
                f"an input of length {m} in spatial dimension {dim}",
                f"at most {self.longest}: of the operation's {self.size} points, the others stay free for the layer's zero padding",
                f"an operation made for it: from_conv(conv, input_size={m}), or convert_ with an example of length {m}",
            )


@dataclass(frozen=True)
class TapPositions:
    """Tap j of k sits at position first + j * step (mod n)."""

    count: int
    first: int
    step: int

    @property
    def span(self) -> tuple[int, int]:
        ends = (self.first, self.first + (self.count - 1) * self.step)
        return min(ends), max(ends)

    @property
    def before(self) -> int:
        """How far they reach before the first input."""
        return max(0, -self.span[0])

    @property
    def after(self) -> int:
        """How far they reach past an output's own point."""
        return max(0, self.span[1])


def least_size(taps: TapPositions, inputs: int, outputs: int) -> int:
    """The smallest n for which reading positions modulo n changes nothing, for inputs at 0..inputs-1 and outputs at 0..outputs-1.

    Positions t + q must miss all inputs whenever they are negative or past the last one.
    """
    low, high = taps.span
    spread = high - low + 1 if abs(taps.step) > 1 else 1  # dilated taps are placed by a permutation: all distinct
    return max(inputs - min(0, low), outputs + max(0, high), inputs, outputs, taps.count, spread)


def check_rule(rule: str) -> None:
    if rule not in get_args(SizeRule):
        raise XDError(f"size={rule!r}", " or ".join(map(repr, get_args(SizeRule))), "size='cheapest'")


def size_by_rule(rule: SizeRule, at_least: int, even: bool) -> int:
    check_rule(rule)
    if rule == "cheapest":
        return cheapest_size(at_least, even)
    if rule == "power":
        return power_of_two(max(2 if even else 1, at_least))
    n = smooth_size(at_least)
    while even and n % 2:
        n = smooth_size(n + 1)
    return n


def choose_size(at_least: int, given: int | SizeRule | None, what: str, half: bool = False) -> int:
    """A given size, checked, or the one that the rule chooses: whose butterflies cost least, unless it says otherwise."""
    if given is None or isinstance(given, str):
        return size_by_rule(given or "cheapest", at_least, half)
    if not at_least <= given < 2**31 or (half and given % 2):
        raise XDError(
            f"size {given}",
            f"{'an even number, ' if half else ''}at least {at_least}, which {what} needs, and below 2^31",
            f"size={cheapest_size(at_least, even=half)}, or None to choose",
        )
    return given


def wrapped_size(least: int, size: int | SizeRule | None) -> int:
    """Of a layer that wraps around: its own length, if that is smooth, or the next power of two, where what is added is zero."""
    return choose_size(least, "smooth" if size is None or size == "cheapest" else size, "the wrapped layer")


def is_smooth(n: int) -> bool:
    return n == 1 or prime_factors(n)[-1] <= MAX_RADIX


def conv_axis(
    m: int,
    *,
    kernel: int,
    stride: int,
    dilation: int,
    pad: tuple[int, int],
    mode: str,
    size: int | SizeRule | None,
    wrap: bool,
    half: bool = False,
) -> tuple[Axis, TapPositions]:
    """A convolution of m inputs; `wrap` is the paper's circular variant at the input's own size, whatever the mode.

    In the half domain nothing can wrap around as it is, so that a circular layer is one with explicit padding.
    """
    low, high = pad
    growth = low + high - dilation * (kernel - 1)
    if m < 1 or m + growth < 1:
        raise XDError(
            f"an input of length {m} for kernel {kernel}, dilation {dilation}, padding {pad}",
            f"at least {max(1, 1 - growth)}",
            "a larger input, a smaller kernel or more padding",
        )
    outputs = (m - 1 + growth) // stride * stride + 1
    centred = TapPositions(kernel, -low, dilation)
    if wrap and half:
        if max(pad) > m:
            raise XDError(f"padding {pad} around {m} points", f"at most {m}, so that it can wrap around", "boundary='exact'")
        mode = "circular"
    elif wrap:
        least = max(m, outputs, kernel, dilation * (kernel - 1) + 1 if dilation > 1 else 1)
        return Axis(wrapped_size(least, size), stride=stride, growth=growth), centred
    elif mode == "circular" and not half:
        fits = outputs <= m and is_smooth(m) and kernel <= m and (dilation == 1 or dilation * (kernel - 1) < m)
        own = not isinstance(size, int) and fits and (size != "power" or power_of_two(m) == m)
        if size == m or own:
            return Axis(m, stride=stride, growth=growth, wraps=True, wrap_pad=pad), centred
    if mode == "zeros":
        n = choose_size(least_size(centred, m, outputs), size, "this layer at every position", half)
        return Axis(n, stride=stride, growth=growth, before=centred.before, after=centred.after), centred
    plain = TapPositions(kernel, 0, dilation)
    n = choose_size(least_size(plain, m + low + high, outputs), size, "this layer with its explicit padding", half)
    return Axis(n, stride=stride, growth=growth, pad=pad), plain


def conv_transpose_axis(
    m: int,
    *,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    output_pad: int,
    size: int | SizeRule | None,
    wrap: bool,
    half: bool = False,
) -> tuple[Axis, TapPositions]:
    """A transposed convolution: y[t] = sum_j w_j X[t - j d + p] with X the inputs `stride` apart. The half domain never wraps."""
    growth = dilation * (kernel - 1) - 2 * pad + output_pad
    inputs = (m - 1) * stride + 1
    outputs = inputs + growth
    if m < 1 or outputs < 1:
        raise XDError(
            f"an input of length {m} for a transposed kernel {kernel}, dilation {dilation}, padding {pad}",
            "one that gives at least one output",
            "a larger input or less padding",
        )
    taps = TapPositions(kernel, pad, -dilation)
    if wrap and not half:
        least = max(inputs, outputs, kernel)
        return Axis(wrapped_size(least, size), step=stride, growth=growth), taps
    n = choose_size(least_size(taps, inputs, outputs), size, "this layer", half)
    return Axis(n, step=stride, growth=growth, before=taps.before, after=taps.after), taps
