"""Shift-invariant XD-operations: every tap of a convolution becomes one long filter, and all filters are the architecture.

    y[t] = sum_j w_j sum_s a_j[s] x[t + s - row],     a_j = row `row` of A_j = Re(K diag(L[:, j]) M), of size H

An XD-operation of size H (Definition 3.1) gives one output, that at `row`, from the H inputs of a window, and the window is moved
along the signal. A convolution whose taps span at most H points starts exactly, at any length and boundary. With the window's end
at the convolution's last tap it is causal, whatever the architecture becomes; otherwise the taps are in the middle of the window.
With fixed parameters it *is* a convolution, whose filters have H taps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xdops.engine.correlate import correlate_alone, correlate_by_fft
from xdops.engine.operator import is_traced
from xdops.engine.tap_rows import tap_rows
from xdops.errors import XDError
from xdops.matrices import KMatrix
from xdops.matrices.pairs import check_floating, to_complex
from xdops.operations.architecture import ARCHITECTURE, Architecture
from xdops.operations.definition import check_device, check_dtype
from xdops.operations.shift_plan import ShiftPlan, ShiftProblem, make_shift_plan
from xdops.operations.source import Source

CONVS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_LAYERS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@dataclass(frozen=True)
class Window:
    """One dimension: output t is row `row` of an operation of `size` points, on inputs t * stride - pad[0] and later ones."""

    size: int  # H
    row: int
    stride: int
    pad: tuple[int, int]

    def out(self, m: int) -> int:
        return (m + sum(self.pad) - self.size) // self.stride + 1


class ShiftInvariantOperation(Architecture):
    """An XD-operation that is the same at every position, in 1, 2 or 3 dimensions.

    K, L, M: one K-matrix of size H per dimension. b, C, weight, groups, `trained` and `source` as in `XDOperation`. plan: how to
    evaluate, "auto" or the name of a form (see `xdops.operations.shift_plan`).
    """

    def __init__(
        self,
        windows: Sequence[Window],
        weight: Tensor,
        K: Sequence[KMatrix],
        L: Sequence[KMatrix],
        M: Sequence[KMatrix],
        b: Tensor | None = None,
        C: Tensor | None = None,
        bias: Tensor | None = None,
        groups: int = 1,
        trained: Iterable[str] = ARCHITECTURE,
        padding_mode: str = "zeros",
        source: Source | None = None,
        plan: str = "auto",
    ) -> None:
        super().__init__()
        self.windows, self.groups, self.padding_mode, self.plan = tuple(windows), groups, padding_mode, plan
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.bias = bias if bias is None or isinstance(bias, nn.Parameter) else nn.Parameter(bias)
        # Not asked of the weight each time, which may be computed (weight_norm).
        self.out_channels, self.in_channels = weight.shape[0], weight.shape[1] * groups
        self.kernel_size = tuple(weight.shape[2:])
        assert all([m.n for m in matrices] == list(self.sizes) for matrices in (K, L, M))
        self._register(K, L, M, b, C, trained, source)

    @classmethod
    def from_conv(cls, conv: nn.Module, span: int, **options: Any) -> "ShiftInvariantOperation":
        """The operation that is exactly this convolution; see `shift_invariant_from_conv`."""
        from xdops.operations.shift_start import shift_invariant_from_conv

        return shift_invariant_from_conv(conv, span, **options)

    @property
    def sizes(self) -> tuple[int, ...]:
        """H per dimension."""
        return tuple(w.size for w in self.windows)

    def rows_of_taps(self) -> list[Tensor]:
        """Per dimension the rows a_j of K diag(L[:, j]) M, complex, (taps, H)."""
        rows = []
        for i, (window, taps) in enumerate(zip(self.windows, self.kernel_size, strict=True)):
            matrices = [self._learnable(name)[i] for name in "KLM"]
            rows.append(tap_rows(window.row, taps, [m.layout for m in matrices], [v for m in matrices for v in m.tensors()]))
        return rows

    def row_of_b(self) -> Tensor:
        """The same row of K diag(b) M over the whole window, complex, (H...)."""
        assert self.b is not None
        grid = to_complex(self.b)
        for dim, (window, K, _, M) in enumerate(zip(self.windows, *self._matrices(), strict=True)):
            k = K.to_dense(rows=[window.row])[0]
            grid = ((grid.movedim(dim, -1) * k) @ M.to_dense()).movedim(-1, dim)
        return grid

    def _matrices(self) -> list[list[KMatrix]]:
        """K, L and M, each per dimension."""
        return [[m.matrix for m in self._learnable(name)] for name in "KLM"]

    def long_filters(self) -> Tensor:
        """The filters of the convolution that this is now, (c_out, c_in/groups, H...): Re(C (sum_j w_j a_j + b's row))."""
        w: Tensor = self.weight
        rows = self.rows_of_taps()
        if len(rows) == 1 and self.b is None and self.C is None:
            return w.to(rows[0].real.dtype) @ rows[0].real
        filters = w.to(rows[0].dtype)
        for dim, a in enumerate(rows, start=2):
            filters = (filters.movedim(dim, -1) @ a).movedim(-1, dim)
        if self.b is not None:
            filters = filters + self.row_of_b()
        if self.C is not None:
            filters = filters * to_complex(self.C).reshape(*self.C.shape[:-1], *(1 for _ in self.windows))
        return filters.real

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        if is_traced(input):  # numbers cannot be looked at, nor plans be made
            return self._convolve(input, self.long_filters(), self.bias)
        plan = self.plan_for(input)
        if plan.form == "source":
            assert self.source is not None
            return self.source(input, self.weight, self.bias)
        if plan.form.startswith("taps"):
            return self._by_taps(input, plan.form == "taps-fft")
        return self._convolve(input, self.long_filters(), self.bias, plan.form == "filter-fft")

    def plan_for(self, x: Tensor) -> ShiftPlan:
        """How an input like x is evaluated: `print(op.plan_for(x))`."""
        problem = ShiftProblem(
            tuple(m + sum(w.pad) for m, w in zip(x.shape[2:], self.windows, strict=True)),
            tuple(w.out(m) for m, w in zip(x.shape[2:], self.windows, strict=True)),
            tuple(w.stride for w in self.windows),
            self.sizes,
            self.kernel_size,
            x.shape[0],
            self.in_channels,
            self.out_channels,
            self.groups,
            self.b is None and self.C is None,
            self._is_source(),
        )
        return make_shift_plan(problem, self.plan)

    def _by_taps(self, x: Tensor, by_fft: bool) -> Tensor:
        """In one dimension: every channel through the k filters a_j, then channels mixed tap by tap. No filter is ever built."""
        (window,), (a,) = self.windows, self.rows_of_taps()
        batch, channels, _ = x.shape
        filters = a.real.to(x.dtype)  # (k, H)
        alone = self._pad(x).flatten(0, 1)  # (batch c_in, m)
        z = correlate_by_fft(alone[:, None], filters[:, None], (1,)) if by_fft else correlate_alone(alone, filters)
        z = z[..., :: window.stride].reshape(batch, channels * len(a), -1)  # as the flattened weight: channel i's tap j at i k + j
        weight = self.weight.flatten(1)
        if self.groups > 1:
            return F.conv1d(z, weight[..., None], self.bias, groups=self.groups)
        y = weight @ z
        return y if self.bias is None else y + self.bias[:, None]

    def _convolve(self, x: Tensor, filters: Tensor, bias: Tensor | None, by_fft: bool = False) -> Tensor:
        padded, stride = self._pad(x), tuple(w.stride for w in self.windows)
        if not by_fft:
            return cast(Tensor, CONVS[len(stride)](padded, filters.to(x.dtype), bias, stride, groups=self.groups))
        y = correlate_by_fft(padded, filters.to(x.dtype), stride, self.groups)
        return y if bias is None else y + bias.reshape(-1, *(1 for _ in stride))

    def _pad(self, x: Tensor) -> Tensor:
        amounts = [p for w in reversed(self.windows) for p in w.pad]
        return F.pad(x, amounts, mode="constant" if self.padding_mode == "zeros" else self.padding_mode)

    def _check(self, x: Tensor) -> None:
        """Refuse what does not fit, before anything is computed."""
        check_floating(x.dtype, "an input")
        mine = self._learnable("K")[0].tensors()[0]  # not the weight, which may be computed at every look
        check_device(x, mine)
        check_dtype(x, mine.dtype)
        if x.dim() != len(self.windows) + 2 or x.shape[1] != self.in_channels:
            raise XDError(
                f"an input of shape {tuple(x.shape)}",
                f"(batch, {self.in_channels} channels, {len(self.windows)} more dimensions)",
                "x[None] for a single example",
            )
        most = {"circular": 0, "reflect": 1}.get(self.padding_mode)
        for m, window in zip(x.shape[2:], self.windows, strict=True):
            if most is not None and max(window.pad) > m - most:
                raise XDError(
                    f"an input of length {m} with {self.padding_mode} padding {window.pad}, which a window of {window.size} needs",
                    f"at least {max(window.pad) + most} points",
                    f"span={max(1, window.size - 2 * (max(window.pad) + most - m))} or less",
                )
            if window.out(m) < 1:
                raise XDError(
                    f"an input of length {m} for windows of {window.size} with padding {window.pad}",
                    f"at least {window.size - sum(window.pad)}",
                    "a longer input",
                )

    @torch.no_grad()
    def merged(self) -> nn.Module:
        """The convolution that this is now, as torch's own layer, after a padding layer where the two sides differ."""
        filters, dims = self.long_filters().to(self.weight.dtype), len(self.windows)
        even = all(low == high for low, high in (w.pad for w in self.windows))
        conv = _LAYERS[dims](
            self.in_channels,
            self.out_channels,
            self.sizes,
            stride=tuple(w.stride for w in self.windows),
            padding=tuple(w.pad[0] for w in self.windows) if even else 0,
            groups=self.groups,
            bias=self.bias is not None,
            padding_mode=self.padding_mode if even else "zeros",
            device=filters.device,
            dtype=filters.dtype,
        )
        conv.requires_grad_(False)
        conv.weight.copy_(filters)
        if self.bias is not None:
            conv.bias.copy_(self.bias)
        return self._looking_like_this(conv if even else nn.Sequential(Padding(self.windows, self.padding_mode), conv))

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels} -> {self.out_channels}, window={self.sizes}, kernel={self.kernel_size}, depth={self.depth}, "
            f"groups={self.groups}, {self._said_of_training()}"
        )


class Padding(nn.Module):
    """The padding of windows, as a layer."""

    def __init__(self, windows: Sequence[Window], mode: str) -> None:
        super().__init__()
        self.amounts = [p for w in reversed(windows) for p in w.pad]
        self.mode = "constant" if mode == "zeros" else mode

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self.amounts, mode=self.mode)
