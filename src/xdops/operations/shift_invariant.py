"""Shift-invariant XD-operations: every tap of a convolution becomes one long filter, and all filters are the architecture.

    y[t] = sum_j w_j sum_s a_j[s] x[t + s - row],     a_j = row `row` of A_j = Re(K diag(L[:, j]) M), of size H

An XD-operation of size H (Definition 3.1) gives one output, that at `row`, from the H inputs of a window, and the window is moved
along the signal. A convolution whose taps span at most H points starts exactly, at any length and boundary. With the window's end
at the convolution's last tap it is causal, whatever the architecture becomes; otherwise the taps are in the middle of the window.
With fixed parameters it *is* a convolution, whose filters have H taps.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Proxy

from xdops.engine.evaluation import Operands
from xdops.engine.operator import evaluate_as_operator
from xdops.engine.shift import (
    ShiftDescription,
    ShiftWindow,
    convolve,
    evaluate_shift,
    long_filters,
    plan_shift,
    rows_of_taps,
)
from xdops.engine.shift_plan import ShiftPlan
from xdops.engine.tracing import is_compiled, is_traced
from xdops.errors import XDError, several
from xdops.matrices import KMatrix
from xdops.matrices.learnable import read
from xdops.matrices.pairs import check_floating
from xdops.operations.architecture import ARCHITECTURE, BaseOperation
from xdops.operations.definition import check_dense, check_device, check_dtype
from xdops.operations.graph_nodes import as_node
from xdops.operations.source import Source

_LAYERS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class ShiftInvariantOperation(BaseOperation):
    """An XD-operation that is the same at every position, in 1, 2 or 3 dimensions.

    K, L, M: one K-matrix of size H per dimension. b, C, weight, groups, `trained` and `source` as in `XDOperation`. plan: how to
    evaluate, "auto" or the name of a form (see `xdops.engine.shift_plan`).
    """

    def __init__(
        self,
        windows: Sequence[ShiftWindow],
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

    def description(self) -> ShiftDescription:
        """What the engine has to know beside the tensors."""
        K, L, M = [tuple([m.layout for m in self._learnable(name)]) for name in "KLM"]
        return ShiftDescription(
            lines=self.windows,
            K=K,
            L=L,
            M=M,
            kernel=self.kernel_size,
            groups=self.groups,
            padding_mode=self.padding_mode,
            plan=self.plan,
        )

    def operands(self, weight: Tensor | None = None) -> Operands:
        """The tensors as they are now, whoever put them there; the weight may be given, where it has been looked up already."""
        w: Tensor = self.weight if weight is None else weight
        return Operands(w, read(self, "b"), read(self, "C"), self._values(), [])

    def rows_of_taps(self) -> list[Tensor]:
        """Per dimension the rows a_j of K diag(L[:, j]) M, complex, (taps, H)."""
        return rows_of_taps(self.description(), self.operands())

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return as_node(self, input)
        self._check(input)
        weight, bias = read(self, "weight"), read(self, "bias")  # once: they may be computed
        self._check_tensors(weight, bias)
        description, operands = self.description(), self.operands(weight)
        if is_compiled():
            device = input.device.type
            autocast = device != "meta" and torch.is_autocast_enabled(device)
            dtype = torch.get_autocast_dtype(device) if autocast else input.dtype
            y = evaluate_as_operator(description, operands, input, dtype)
            return y if bias is None else y + bias.to(dtype).reshape(-1, *(1 for _ in self.windows))
        if is_traced(input):  # sizes may be no numbers, from which a plan could be made
            return convolve(description, input, long_filters(description, operands), bias)
        if self.plan == "auto" and self._is_source():
            assert self.source is not None
            return self.source(input, weight, bias)
        return evaluate_shift(description, operands, input, bias)

    def plan_for(self, x: Tensor) -> ShiftPlan:
        """How an input like x is evaluated: `print(op.plan_for(x))`."""
        return plan_shift(self.description(), self.operands(), x, source=self._is_source())

    def _check(self, x: Tensor) -> None:
        """Refuse what does not fit, before anything is computed."""
        check_dense(x)
        check_floating(x.dtype, "an input")
        mine = self._learnable("K")[0].tensors()[0]  # not the weight, which may be computed at every look
        check_device(x, mine)
        check_dtype(x, mine.dtype)
        if x.dim() != len(self.windows) + 2:
            channels = several(self.in_channels, "channel")
            raise XDError(
                f"an input of shape {tuple(x.shape)}",
                f"{len(self.windows) + 2} dimensions: (batch, {channels}{', points' * len(self.windows)})",
                "x[None] for a single example, x[:, None] for a single channel",
            )
        if x.shape[1] != self.in_channels:
            given = f"an input with {several(x.shape[1], 'channel')}, shape {tuple(x.shape)}"
            second = f"x of shape (batch, {self.in_channels}, ...): channels come second"
            raise XDError(given, several(self.in_channels, "channel"), second)
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

    def merged(self) -> nn.Module:
        """The convolution that this is now, as torch's own layer, after a padding layer where the two sides differ."""
        with self.settled(), torch.inference_mode(False), torch.no_grad():  # what is made now may meet autograd later
            return self._looking_like_this(self._convolution())

    def _convolution(self) -> nn.Module:
        operands, bias, dims = self.operands(), read(self, "bias"), len(self.windows)
        self._check_tensors(operands.weight, bias)
        filters = long_filters(self.description(), operands).to(operands.weight.dtype)
        even = all(low == high for low, high in (w.pad for w in self.windows))
        conv = _LAYERS[dims](
            self.in_channels,
            self.out_channels,
            self.sizes,
            stride=tuple(w.stride for w in self.windows),
            padding=tuple(w.pad[0] for w in self.windows) if even else 0,
            groups=self.groups,
            bias=bias is not None,
            padding_mode=self.padding_mode if even else "zeros",
            device=filters.device,
            dtype=filters.dtype,
        )
        conv.requires_grad_(False)
        conv.weight.copy_(filters)
        if bias is not None:
            conv.bias.copy_(bias)
        return conv if even else nn.Sequential(Padding(self.windows, self.padding_mode), conv)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels} -> {self.out_channels}, window={self.sizes}, kernel={self.kernel_size}, depth={self.depth}, "
            f"groups={self.groups}, {self._said_of_training()}"
        )


class Padding(nn.Module):
    """The padding of windows, as a layer."""

    def __init__(self, windows: Sequence[ShiftWindow], mode: str) -> None:
        super().__init__()
        self.amounts = [p for w in reversed(windows) for p in w.pad]
        self.mode = "constant" if mode == "zeros" else mode

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self.amounts, mode=self.mode)
