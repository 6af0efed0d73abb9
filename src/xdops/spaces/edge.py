"""An edge of the relaxed discrete space: sum_i lambda_i Op_i over the eight operations of the DARTS set, lambda a softmax."""

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Proxy

from xdops.engine.tracing import is_traced
from xdops.errors import XDError
from xdops.operations.graph_nodes import as_node
from xdops.spaces.grid import GridAxis, own_padding, windows
from xdops.spaces.phases import conv_dilated_by_2

#: The set of section 3 of the paper, in 1, 2 or 3 dimensions.
OPERATIONS = ("zero", "identity", "max_pool_3", "avg_pool_3", "conv_3", "conv_5", "dil_conv_3", "dil_conv_5")

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_LEAST = 1e-30  # a softmax weight that is nothing beside 1, with a finite logarithm


def start_logits(mixture: Tensor) -> Tensor:
    """Logits whose softmax is the mixture; in single precision, which every wider dtype holds as it is."""
    return mixture.clamp(min=_LEAST).log().float()


class DartsEdge(nn.Module):
    """All convolutions share one weight (c_out, c_in/groups, 5...); the 3-kernels are its middle (its end if causal), and the
    bias is theirs alone. Identity and pools keep their channels in place: where c_in and c_out differ, zero channels are added, or
    channels cut, alike on both sides. Outputs lie on the grid of the layer that the edge replaces.
    """

    def __init__(
        self,
        axes: Sequence[GridAxis],
        weight: Tensor,
        bias: nn.Parameter | None,
        *,
        groups: int,
        padding_mode: str,
        count_include_pad: bool,
        causal: bool,
        mixture: Tensor,
    ) -> None:
        super().__init__()
        self.axes, self.groups, self.padding_mode = tuple(axes), groups, padding_mode
        self.count_include_pad, self.causal = count_include_pad, causal
        self.weight = nn.Parameter(weight)
        self.bias = bias
        self.logits = nn.Parameter(start_logits(mixture).to(weight))

    @property
    def mixture(self) -> Tensor:
        """lambda, one weight for each of OPERATIONS."""
        return self.logits.softmax(0)

    @property
    def in_channels(self) -> int:
        return self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        return self.weight.shape[0]

    def architecture(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield "logits", self.logits

    def arch_parameters(self) -> list[nn.Parameter]:
        return [self.logits]

    def weight_parameters(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p is not self.logits]

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return as_node(self, input)
        x = input
        if x.dim() != 2 + len(self.axes):
            raise XDError(
                f"an input of shape {tuple(x.shape)}",
                f"a batch of examples with {self.in_channels} channels and {len(self.axes)} spatial dimensions",
                "x[None] for a single example",
            )
        _, identity, max_pool, avg_pool, conv3, conv5, dil3, dil5 = self.mixture
        # Convolutions are linear in their kernels: conv_3, conv_5 and dil_conv_3 are one with a mixed 5-kernel.
        kernel = conv5 * self.weight + conv3 * self.pad_to_5(self.kernel_3()) + dil3 * self.spread(self.kernel_3())
        pooled = max_pool * self.max_pool(x)
        if self.groups == 1 and self.padding_mode == "zeros" and self.count_include_pad:  # so are identity and averages
            kernel = kernel + self.in_place(self.pad_to_5(self.middle(identity) + avg_pool / 3 ** len(self.axes)))
        else:
            pooled = pooled + identity * self.identity(x) + avg_pool * self.avg_pool(x)
        bias = None if self.bias is None else self.bias * (conv3 + conv5 + dil3 + dil5)
        return self.to_out_channels(pooled) + self.conv(x, kernel, bias, 1) + self.conv(x, dil5 * self.weight, None, 2)

    def operation(self, name: str, x: Tensor) -> Tensor:
        """One operation of the set by itself."""
        if name == "zero":
            return torch.zeros_like(self.operation("identity", x))
        if name in ("identity", "max_pool_3", "avg_pool_3"):
            return self.to_out_channels(getattr(self, name.removesuffix("_3"))(x))
        return self.conv(x, self.weight if name.endswith("5") else self.kernel_3(), self.bias, 2 if name.startswith("dil") else 1)

    def identity(self, x: Tensor) -> Tensor:
        x = windows(x, self.axes, 1, 1, self.causal, "zeros")
        for dim, axis in enumerate(self.axes, start=2):
            x = x[(slice(None),) * dim + (slice(None, None, axis.stride),)]
        return x

    def max_pool(self, x: Tensor) -> Tensor:
        padding = self.pool_padding(x)
        if padding is not None:
            if x.dim() == 4 and not is_traced(x):  # torch's maxima go through the channels in vectors where these lie together
                return F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 3, self.stride, padding).contiguous()
            pooled: Tensor = _MAX_POOL[len(self.axes)](x, 3, self.stride, padding)
            return pooled
        y: Tensor = _MAX_POOL[len(self.axes)](windows(x, self.axes, 3, 1, self.causal, "lowest"), 3, self.stride)
        return torch.where(y == -torch.inf, 0.0, y)  # a window that is all padding

    def avg_pool(self, x: Tensor) -> Tensor:
        padding = self.pool_padding(x)
        if padding is not None:
            pooled: Tensor = _AVG_POOL[len(self.axes)](x, 3, self.stride, padding, count_include_pad=self.count_include_pad)
            return pooled
        y: Tensor = _AVG_POOL[len(self.axes)](windows(x, self.axes, 3, 1, self.causal, "zeros"), 3, self.stride)
        if self.count_include_pad:
            return y
        inside = windows(torch.ones_like(x[:1, :1]), self.axes, 3, 1, self.causal, "zeros")
        return y / _AVG_POOL[len(self.axes)](inside, 3, self.stride).clamp(min=1 / 3 ** len(self.axes))

    def pool_padding(self, x: Tensor) -> tuple[int, ...] | None:
        """Of torch's own pools, which take up to half a window."""
        padding = own_padding(x, self.axes, 3, 1, self.causal)
        return None if padding is None or max(padding) > 1 else padding

    def conv(self, x: Tensor, kernel: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
        width = kernel.shape[-1]
        padding = own_padding(x, self.axes, width, dilation, self.causal) if self.padding_mode == "zeros" else None
        if padding is None:
            x, padding = windows(x, self.axes, width, dilation, self.causal, self.padding_mode), (0,) * len(self.axes)
        conv = _CONV[len(self.axes)]
        if dilation == 2 and bias is None and not is_traced(x):
            return conv_dilated_by_2(conv, x, kernel, self.stride, padding, self.groups)
        y: Tensor = conv(x, kernel, bias, self.stride, padding, dilation, self.groups)
        return y

    @property
    def stride(self) -> tuple[int, ...]:
        return tuple(axis.stride for axis in self.axes)

    def kernel_3(self) -> Tensor:
        """The 3-kernel inside of the 5-kernel."""
        first = 2 if self.causal else 1
        kernel: Tensor = self.weight
        for dim in range(2, 2 + len(self.axes)):
            kernel = kernel.narrow(dim, first, 3)
        return kernel

    def pad_to_5(self, kernel: Tensor) -> Tensor:
        """A 3-kernel as a 5-kernel with the same taps."""
        return F.pad(kernel, ((2, 0) if self.causal else (1, 1)) * len(self.axes))

    def spread(self, kernel: Tensor) -> Tensor:
        """A 3-kernel of dilation 2 as a 5-kernel."""
        spread = kernel.new_zeros(self.weight.shape)
        spread[(slice(None), slice(None), *(slice(None, None, 2) for _ in self.axes))] = kernel
        return spread

    def middle(self, value: Tensor) -> Tensor:
        """A 3-kernel of one channel that is `value` where the outputs are about, and zero elsewhere."""
        return F.pad(value.reshape((1,) * len(self.axes)), ((2, 0) if self.causal else (1, 1)) * len(self.axes))

    def in_place(self, kernel: Tensor) -> Tensor:
        """A kernel of one channel, applied to every channel by itself, which goes where `to_out_channels` puts it."""
        missing = self.out_channels - self.in_channels
        before = math.floor(missing / 2)
        places = F.pad(torch.eye(self.in_channels, dtype=kernel.dtype, device=kernel.device), (0, 0, before, missing - before))
        return places[(...,) + (None,) * len(self.axes)] * kernel

    def to_out_channels(self, x: Tensor) -> Tensor:
        """Channels added or cut alike on both sides."""
        missing = self.out_channels - x.shape[1]
        before = math.floor(missing / 2)
        return x if missing == 0 else F.pad(x, (*(0, 0) * len(self.axes), before, missing - before))

    def extra_repr(self) -> str:
        return f"{self.in_channels} -> {self.out_channels}, stride={self.stride}, groups={self.groups}"
