"""`xdops ops`: every named operation, with its largest error against an implementation that knows nothing of XD-operations."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor, nn

from xdops.cli import terminal
from xdops.errors import XDError
from xdops.matrices import permutation
from xdops.operations import Operation, XDOperation
from xdops.operations.catalogue import named
from xdops.operations.catalogue.windows import (
    shift_invariant_average_pool,
    shift_invariant_convolution,
    shift_invariant_skip,
)
from xdops.search.settings import check_seed

#: Largest relative error, in float32, that still counts as the same operation.
TOLERANCE = 1e-5

CHANNELS = 4
MOST_INPUTS = 10_000


@dataclass(frozen=True)
class Check:
    """A named operation, the shape of one input, and what an independent implementation makes of the input."""

    name: str
    op: nn.Module
    shape: tuple[int, ...]
    reference: Callable[[Tensor], Tensor]

    def error(self, inputs: int) -> float:
        """The largest error over random inputs, each relative to the largest entry of its own expected output (or input, if 0)."""
        worst = 0.0
        with torch.no_grad():
            for _ in range(inputs):
                x = torch.randn(1, *self.shape)
                expected, given = self.reference(x), self.op(x)
                if expected.shape != given.shape:
                    return float("inf")
                scale = expected.abs().max() or x.abs().max()
                worst = max(worst, float((given - expected).abs().max() / scale))
        return worst

    @property
    def depth(self) -> str:
        parts = list(self.op) if isinstance(self.op, nn.Sequential) else [self.op]
        return " ∘ ".join(str(part.depth) for part in reversed(parts))

    def count(self, kind: str) -> int:
        """Numbers in the "architecture" or the "weights" of the operation, over all its parts."""
        parts = [m for m in self.op.modules() if isinstance(m, Operation)]
        of_kind = [[p for _, p in op.architecture()] if kind == "architecture" else op.weight_parameters() for op in parts]
        return sum(p.numel() for params in of_kind for p in params)


def checks() -> Iterator[Check]:
    """One or more cases of every constructor in `xdops.named`, in one, two and three dimensions."""
    yield from _convolutions()
    yield from _parameter_free()
    yield from _compositions()
    yield from _graphs()
    yield from _fourier()
    yield from _transposed_and_separable()
    yield from _shift_invariant()


def _convolutions() -> Iterator[Check]:
    c = CHANNELS
    plain = named.convolution(c, c, 5, 60, padding=2)
    yield Check("convolution 5", plain, (c, 60), lambda x: F.conv1d(x, plain.weight, padding=2))
    even = named.convolution(c, 2 * c, (4, 3), (12, 17), padding=1)
    yield Check("convolution 4x3", even, (c, 12, 17), lambda x: F.conv2d(x, even.weight, padding=1))
    cubic = named.convolution(c, c, 3, (6, 7, 8), padding=1)
    yield Check("convolution 3x3x3", cubic, (c, 6, 7, 8), lambda x: F.conv3d(x, cubic.weight, padding=1))
    wide = named.convolution(c, c, 3, (16, 16), dilation=3, padding=3)
    yield Check("convolution 3x3, dilation 3", wide, (c, 16, 16), lambda x: F.conv2d(x, wide.weight, padding=3, dilation=3))
    coarse = named.convolution(c, c, 3, (15, 16), stride=2, padding=1)
    yield Check("convolution 3x3, stride 2", coarse, (c, 15, 16), lambda x: F.conv2d(x, coarse.weight, padding=1, stride=2))
    grouped = named.convolution(c, c, 3, (16, 16), groups=2, padding=1)
    half = torch.cat([w[:, g * c // 2 : (g + 1) * c // 2] for g, w in enumerate(grouped.weight.chunk(2))])
    yield Check("convolution 3x3, groups 2", grouped, (c, 16, 16), lambda x: F.conv2d(x, half, padding=1, groups=2))


def _parameter_free() -> Iterator[Check]:
    c = CHANNELS
    yield Check("skip", named.skip(c, (16, 15)), (c, 16, 15), lambda x: x)
    yield Check("zero", named.zero(c, (16, 15)), (c, 16, 15), torch.zeros_like)
    yield Check("average pool 2", named.average_pool(c, 2, 31), (c, 31), nn.AvgPool1d(2))
    rounded = named.average_pool(c, 3, (16, 15), 2, padding=1, ceil_mode=True, count_include_pad=False)
    pool = nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)
    yield Check("average pool 3x3, stride 2, padding 1", rounded, (c, 16, 15), pool)
    spaced = named.average_pool(c, 3, 30, stride=1, dilation=4)
    mean = torch.full((c, 1, 3), 1 / 3)
    yield Check("average pool 3, dilation 4", spaced, (c, 30), lambda x: F.conv1d(x, mean, dilation=4, groups=c))


def _compositions() -> Iterator[Check]:
    c, n = CHANNELS, 32
    op = named.convolution(c, c, 3, n, padding=1, padding_mode="circular")
    order = torch.randperm(n)
    A = permutation(order)

    def circular(x: Tensor) -> Tensor:
        return F.conv1d(F.pad(x, (1, 1), mode="circular"), op.weight)

    yield Check("convolution 3 ∘ permutation", named.compose_input(op, A), (c, n), lambda x: circular(x[..., order]))
    yield Check("permutation ∘ convolution 3", named.compose_output(A, op), (c, n), lambda x: circular(x)[..., order])


def _graphs() -> Iterator[Check]:
    c, nodes = CHANNELS, 20
    upper = torch.triu(torch.rand(nodes, nodes) < 0.15, diagonal=1)
    edges = (upper | upper.T).float()
    edges[7] = edges[:, 7] = 0  # a node that nothing is connected to
    looped = edges + torch.eye(nodes)
    normal = looped / torch.outer(looped.sum(1), looped.sum(1)).sqrt()
    walk = (edges / edges.sum(1, keepdim=True)).nan_to_num(0.0)
    for name, make, G in (
        ("graph convolution", named.graph_convolution, normal),
        ("diffusion graph convolution", named.diffusion_graph_convolution, walk),
    ):
        op = make(c, 2 * c, edges)
        yield Check(name, op, (c, nodes), lambda x, op=op, G=G: op.weight[..., 0] @ x @ G.T)  # type: ignore[misc]


def _fourier() -> Iterator[Check]:
    c = CHANNELS
    real = named.fno(c, c, modes=6, input_size=32)
    yield Check("FNO, 6 modes, real weights", real, (c, 32), lambda x: spectral(x, torch.complex(*real.weight.chunk(2, dim=-1))))
    full = named.fno_complex(c, c, modes=12, input_size=32)
    yield Check("FNO, 12 modes, complex weights", full, (c, 32), lambda x: spectral(x, torch.view_as_complex(full.weight)))
    flat = named.fno_complex(c, c, modes=(4, 5), input_size=(16, 18))
    yield Check("FNO, 4x5 modes, complex weights", flat, (c, 16, 18), lambda x: spectral(x, torch.view_as_complex(flat.weight)))


def spectral(x: Tensor, weight: Tensor) -> Tensor:
    """Re(F^-1 diag(w, 0) F x), by torch.fft; weight (c_out, c_in, modes...) complex."""
    dims = tuple(range(2, x.dim()))
    low = tuple(slice(0, k) for k in weight.shape[2:])
    x_hat = torch.fft.fftn(x, dim=dims)
    y_hat = x_hat.new_zeros(x.shape[0], weight.shape[0], *x.shape[2:])
    y_hat[(..., *low)] = torch.einsum("oi...,bi...->bo...", weight, x_hat[(..., *low)])
    return torch.fft.ifftn(y_hat, dim=dims).real


def _transposed_and_separable() -> Iterator[Check]:
    c = CHANNELS
    up = named.transposed_convolution(c, 2 * c, 2, (8, 9))
    yield Check("transposed convolution 2x2", up, (c, 8, 9), lambda x: F.conv_transpose2d(x, up.weight, stride=2))
    far = named.transposed_convolution(c, c, 3, 12, dilation=2)
    sparse_taps = "transposed convolution 3, dilation 2"
    yield Check(sparse_taps, far, (c, 12), lambda x: F.conv_transpose1d(x, far.weight, stride=5, dilation=2))
    pair = named.depthwise_separable(c, 2 * c, 3, (16, 16), padding=1)
    depthwise, pointwise = (m.weight for m in pair.modules() if isinstance(m, XDOperation))

    def separable(x: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, depthwise, padding=1, groups=c), pointwise)

    yield Check("depthwise-separable convolution 3x3", pair, (c, 16, 16), separable)


def _shift_invariant() -> Iterator[Check]:
    c = CHANNELS
    far = shift_invariant_convolution(c, c, (3,), 16, dilation=5, padding=5)
    yield Check("convolution 3, dilation 5, window 16", far, (c, 40), lambda x: F.conv1d(x, far.weight, padding=5, dilation=5))
    past = shift_invariant_convolution(c, c, (2,), 16, causal=True, dilation=4, padding=4)
    delayed = "causal convolution 2, dilation 4, window 16"
    yield Check(delayed, past, (c, 40), lambda x: F.conv1d(x, past.weight, padding=4, dilation=4))
    pool = shift_invariant_average_pool(c, (3, 3), 6, stride=2, padding=1)
    yield Check("average pool 3x3, stride 2, window 6", pool, (c, 16, 15), nn.AvgPool2d(3, 2, 1))
    yield Check("skip, window 8", shift_invariant_skip(c, 1, 8), (c, 30), lambda x: x)


@dataclass(frozen=True)
class Ops:
    """Print every named operation with its depth, its parameters and its error; exit with 1 if one is not what it says."""

    inputs: int = 8
    """Random inputs per operation."""
    seed: int = 0
    """Seed of weights, graphs and inputs."""

    def run(self) -> int:
        if not 1 <= self.inputs <= MOST_INPUTS:
            raise XDError(f"{self.inputs} inputs", f"at least 1, at most {MOST_INPUTS:,}", "--inputs 8")
        check_seed(self.seed)
        torch.manual_seed(self.seed)
        table = Table(title=f"Named operations, float32, {self.inputs} random inputs each")
        table.add_column("operation")
        table.add_column("depth (K, L, M)")
        for column in ("weights", "architecture", "largest relative error"):
            table.add_column(column, justify="right")
        wrong = []
        for check in checks():
            error = check.error(self.inputs)
            if not error <= TOLERANCE:
                wrong.append(check.name)
            style = None if error <= TOLERANCE else "bold red"
            table.add_row(
                check.name, check.depth, str(check.count("weights")), str(check.count("architecture")), f"{error:.1e}", style=style
            )
        console = terminal.console() if sys.stdout.isatty() else terminal.console(width=120)
        console.print(table)
        verdict = "all" if not wrong else f"not {', '.join(wrong)}:"
        console.print(f"{verdict} within {TOLERANCE:.0e} of an independent implementation", soft_wrap=True)
        return 1 if wrong else 0
