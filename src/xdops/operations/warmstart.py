"""The warm start: an XD-operation that is exactly a given convolution, at every position, boundary included.

PyTorch's convolution is a correlation, y[t] = sum_j w_j x[t + q_j]. With F the DFT and P digit reversal,
M = P F / sqrt(n), K = (P F)^H / sqrt(n) and L = P conj(F) at the tap positions q_j give it, since then
K diag(L w) M x = F^-1 diag(conj(F) w at q) F x. M and K are unitary and L has entries of modulus 1, so that w keeps its scale.
In the half domain (`domains`) half the rows of M and L and half the columns of K, at odd frequencies, give it for real inputs.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from xdops.arguments import checked
from xdops.engine.plan import Plan
from xdops.errors import XDError
from xdops.matrices import KMatrix, identity, permutation
from xdops.matrices.pairs import check_floating
from xdops.operations.axes import Axis, SizeRule, TapPositions, conv_axis, conv_transpose_axis
from xdops.operations.definition import check_padding
from xdops.operations.domains import (
    DEFAULT_DOMAIN,
    Domain,
    domain_radices,
    fourier_in,
    fourier_matrix,
    half_turns,
    halved,
    phases,
)
from xdops.operations.operation import XDOperation
from xdops.operations.source import Source

Depth = int | tuple[int, int, int] | None
Presence = Literal["absent", "fixed", "trained"]

#: Points per dimension, and butterflies of one matrix: more is a typing error that would take all memory.
LONGEST, DEEPEST = 2**27, 64

_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@checked
def from_conv(
    conv: nn.Module,
    input_size: int | Sequence[int],
    depth: Depth = None,
    size: int | Sequence[int | SizeRule | None] | SizeRule | None = None,
    boundary: Literal["exact", "wrap"] = "exact",
    b: Presence = "absent",
    C: Presence = "absent",
    trained: Sequence[str] = ("K", "L", "M", "b", "C"),
    causal: bool = False,
    plan: str | Plan = "auto",
    domain: Domain = DEFAULT_DOMAIN,
) -> XDOperation:
    """The XD-operation equal to `conv` on inputs of `input_size` (and smaller ones), sharing its weight and bias.

    depth: (K, L, M), one number for all, or None for the least that holds the layer. size: the operation's own size per
    dimension, or how to choose it: "cheapest" (None), "smooth" for the smallest that factors well, "power" for powers of two.
    domain: "half" has half the points in the last dimension, for half the cost.
    boundary "wrap" is the paper's cheaper variant, circular at the input's own size whatever the padding; in the half domain the
    last dimension is made circular by explicit padding, and transposed convolutions stay exact there.
    causal: for a 1d convolution with stride 1 and zeros for padding, no output will ever see an input later than the last one
    that the convolution lets it see: with left padding (k - 1) dilation, output t sees inputs up to t. Inputs have to be finite for
    that: what comes later is multiplied by zero, which makes nothing of a number, but NaN of NaN and of infinity.
    Smaller inputs work as well, unless padding is circular and there is no room for it, which is an error.
    """
    if not isinstance(conv, (*_CONVS, *_TRANSPOSED)):
        raise XDError(f"a {type(conv).__name__}", "a Conv1d/2d/3d or ConvTranspose1d/2d/3d", "xdops.named for other operations")
    if isinstance(conv.weight, nn.parameter.UninitializedParameter):
        raise XDError(
            f"a {type(conv).__name__} that has not seen an input", "a layer with a weight", "call the model on an example first"
        )
    check_floating(conv.weight.dtype, "a weight")
    if conv.weight.dtype.is_complex:
        raise XDError(f"a convolution of {conv.weight.dtype}", "a real one", "two layers, of the real and of the imaginary parts")
    if causal and boundary == "wrap":
        raise XDError('causal=True with boundary="wrap"', "the boundary of the layer itself", 'boundary="exact"')
    dims = len(conv.kernel_size)
    sizes_in = per_dimension(input_size, dims, "input_size")
    sizes: Sequence[int | SizeRule | None] = (size,) * dims if size is None or isinstance(size, int | str) else tuple(size)
    if len(sizes) != dims:
        raise XDError(f"size {size}", f"{dims} numbers, or None", "size=None")
    half, wrap = halved(domain, dims), boundary == "wrap"
    placed = [conv_geometry(conv, i, sizes_in[i], sizes[i], wrap, half[i]) for i in range(dims)]
    axes, taps = [axis for axis, _ in placed], [t for _, t in placed]
    for m, axis in zip(sizes_in, axes, strict=True):
        check_padding(m, axis.padding(m), "circular" if wrap else conv.padding_mode)
    depths = resolve_depth(depth, any(dilated(t) for t in taps))
    op = XDOperation(
        axes,
        conv.weight,
        *convolution_matrices(axes, taps, depths, conv.weight.dtype, domain),
        b=constant_b(axes, b, conv.weight.dtype, domain),
        C=constant_C(conv.out_channels, conv.in_channels // conv.groups, C, conv.weight.dtype),
        bias=conv.bias,
        groups=conv.groups,
        trained=learned(trained, b, C),
        padding_mode="circular" if wrap else conv.padding_mode,
        transposed_weight=isinstance(conv, _TRANSPOSED),
        causal=_lookahead(conv, taps) if causal else None,
        source=None if wrap else Source.of(conv),
        plan=plan,
    )
    op.look_like(conv)
    return op.to(conv.weight.device)


def _lookahead(conv: Any, taps: Sequence[TapPositions]) -> int:
    """How far after t the convolution's last tap reads: 0 with the left padding of a causal convolution."""
    if isinstance(conv, _TRANSPOSED) or len(taps) != 1 or conv.stride[0] != 1 or conv.padding_mode != "zeros":
        raise XDError(
            f"causal=True for {conv}",
            "a 1d convolution with stride 1 and zeros for padding",
            "padding=(kernel_size - 1) * dilation, and drop the end of the output, as in a TCN",
        )
    return taps[0].span[1]


def per_dimension(value: int | Sequence[int], dims: int, what: str) -> tuple[int, ...]:
    """One positive integer per dimension."""
    values = (value,) * dims if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    if len(values) != dims or any(not isinstance(v, int) or not 1 <= v <= LONGEST for v in values):
        raise XDError(f"{what} {value}", f"{dims} positive integers, the spatial sizes, at most {LONGEST:,}", f"{what}=x.shape[2:]")
    return values


def conv_geometry(
    conv: Any, i: int, m: int, size: int | SizeRule | None, wrap: bool, half: bool = False
) -> tuple[Axis, TapPositions]:
    """Axis and taps of dimension i of any torch convolution."""
    kernel, stride, dilation = conv.kernel_size[i], conv.stride[i], conv.dilation[i]
    if isinstance(conv, _TRANSPOSED):
        return conv_transpose_axis(
            m, kernel=kernel, stride=stride, dilation=dilation, pad=int(conv.padding[i]), output_pad=conv.output_padding[i],
            size=size, wrap=wrap, half=half,
        )  # fmt: skip
    total = dilation * (kernel - 1)
    if conv.padding == "valid":
        pad = (0, 0)
    elif conv.padding == "same":
        pad = (total // 2, total - total // 2)
    else:
        pad = (conv.padding[i], conv.padding[i])
    mode = str(conv.padding_mode)
    return conv_axis(m, kernel=kernel, stride=stride, dilation=dilation, pad=pad, mode=mode, size=size, wrap=wrap, half=half)


def dilated(taps: TapPositions) -> bool:
    """Whether the taps need a permutation to reach their places."""
    return taps.count > 1 and abs(taps.step) > 1


def resolve_depth(depth: Depth, needs_permutation: bool) -> tuple[int, int, int]:
    """The depth triple, refused where it cannot hold the layer."""
    least = (1, 3, 1) if needs_permutation else (1, 1, 1)
    given = least if depth is None else (depth,) * 3 if isinstance(depth, int) else tuple(depth)
    if len(given) != 3 or any(type(d) is not int or not 1 <= d <= DEEPEST for d in given):
        raise XDError(f"depth {depth}", f"three positive integers, the depths of K, L and M, at most {DEEPEST}", f"depth={least}")
    if given[1] < least[1]:
        raise XDError(
            f"depth {given} for a dilated convolution",
            f"at least {least}: a permutation spreads the taps of dilated filters, which takes two butterflies before the DFT in L",
            f"depth={tuple(max(g, m) for g, m in zip(given, least, strict=True))}",
        )
    return given


def convolution_matrices(
    axes: Sequence[Axis], taps: Sequence[TapPositions], depth: tuple[int, int, int], dtype: torch.dtype, domain: Domain = "full"
) -> tuple[list[KMatrix], list[KMatrix], list[KMatrix]]:
    """K, L, M of the warm start, one matrix per dimension."""
    K, L, M = [], [], []
    for axis, tap, half in zip(axes, taps, halved(domain, len(axes)), strict=True):
        into = fourier_in(axis.size, half)
        K.append(deepen_output(into.adjoint(), depth[0]).to(dtype))
        L.append(filter_matrix(axis.size, tap, depth[1], half).to(dtype))
        M.append(deepen_input(into, depth[2]).to(dtype))
    return K, L, M


def filter_matrix(n: int, taps: TapPositions, depth: int, half: bool = False, radices: Sequence[int] | None = None) -> KMatrix:
    """L: column j is the transform of a unit tap at its position, the conjugate of M's column q_j, in digit-reversed order.

    For taps next to each other a shift and a reflection suffice, at depth 1; taps apart are placed by a permutation. In the half
    domain a position q_j outside 0..n-1 is column q_j mod n with a change of sign for every n.
    """
    radices = domain_radices(n, half) if radices is None else radices
    into = fourier_matrix(n, half, radices)
    if dilated(taps):
        positions = [taps.first + j * taps.step for j in range(taps.count)]
        places = [q % n for q in positions]
        free = sorted(set(range(n)) - set(places))
        source = [0] * n
        for column, place in enumerate((*places, *free)):
            source[place] = column
        placed = into.conj() @ deepen_input(permutation(source, radices, dtype=torch.float64), depth - 1)
        if not half:
            return placed
        return placed.scale_columns(torch.tensor([(-1.0) ** (q // n) for q in (*positions, *free)], dtype=torch.float64))
    oriented = into.conj() if taps.step > 0 else into
    return deepen_input(oriented.scale_rows(phases(half_turns(radices, half) * taps.first, n)), depth)


def deepen_input(matrix: KMatrix, depth: int) -> KMatrix:
    """The same matrix at a greater depth: identities applied before it, directions alternating."""
    extra = depth - matrix.depth
    if extra <= 0:
        return matrix
    first_is_increasing = matrix.butterflies[0].increasing ^ (extra % 2 == 1)
    return matrix @ _identity_like(matrix, extra, first_is_increasing)


def deepen_output(matrix: KMatrix, depth: int) -> KMatrix:
    """The same matrix at a greater depth: identities applied after it, directions alternating."""
    extra = depth - matrix.depth
    if extra <= 0:
        return matrix
    return _identity_like(matrix, extra, not matrix.butterflies[-1].increasing) @ matrix


def _identity_like(matrix: KMatrix, depth: int, increasing: bool) -> KMatrix:
    return identity(matrix.n, depth, matrix.radices, "increasing" if increasing else "decreasing", matrix.dtype)


def constant_b(axes: Sequence[Axis], presence: Presence, dtype: torch.dtype, domain: Domain = "full") -> Tensor | None:
    """b = 0: what a convolution has."""
    if presence == "absent":
        return None
    return torch.zeros(*domain_points(axes, domain), 2, dtype=dtype)


def domain_points(axes: Sequence[Axis], domain: Domain) -> tuple[int, ...]:
    """Points of the domain per dimension."""
    return tuple(a.size // 2 if half else a.size for a, half in zip(axes, halved(domain, len(axes)), strict=True))


def constant_C(c_out: int, c_in: int, presence: Presence, dtype: torch.dtype) -> Tensor | None:
    """C = 1: every output channel sees every input channel of its group."""
    if presence == "absent":
        return None
    return torch.stack((torch.ones(c_out, c_in, dtype=dtype), torch.zeros(c_out, c_in, dtype=dtype)), dim=-1)


def learned(trained: Sequence[str], b: Presence, C: Presence) -> set[str]:
    """Which architecture parameters learn: the named ones, less a b or C that is to be fixed."""
    for name, presence in (("b", b), ("C", C)):
        if presence not in ("absent", "fixed", "trained"):
            raise XDError(f"{name}={presence!r}", "'absent', 'fixed' or 'trained'", f"{name}='trained'")
    return set(trained) - {name for name, presence in (("b", b), ("C", C)) if presence != "trained"}
