"""Networks for sequences made causal by windows, as in the paper: every prediction is made from the last steps alone."""

import torch
from torch import Tensor, nn

from xdops.backbones.tcn import TCN, TemporalBlock, WordTCN


def in_windows(network: nn.Module, size: int) -> nn.Module:
    """The levels of a word model in windows, or the whole of any other network; a TCN with what is cheap where steps are many."""
    if isinstance(network, TCN | WordTCN):
        blocks = [module for module in network.levels.modules() if isinstance(module, TemporalBlock)]
        for block in blocks:
            block.dropout1, block.dropout2 = ShortDropout(block.dropout1.p), ShortDropout(block.dropout2.p)
        blocks[-1].last_only = True
    if isinstance(network, WordTCN):
        network.levels = InWindows(network.levels, size)
        return network
    return InWindows(network, size)


class InWindows(nn.Module):
    """A network for signals, made causal by windows as in the paper: output t is what it says last about the `size` inputs up to t.

    Before the beginning there are zeros. All windows of a sequence are one batch: (batch, channels, T) is looked at as
    (batch T, channels, size), and the network may look anywhere in a window.
    """

    def __init__(self, network: nn.Module, size: int) -> None:
        super().__init__()
        self.network, self.size = network, size

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, steps = x.shape
        seen = nn.functional.pad(x, (self.size - 1, 0)).unfold(2, self.size, 1)  # (batch, channels, T, size)
        y = self.network(seen.permute(0, 2, 1, 3).reshape(batch * steps, channels, self.size))
        return y[..., -1].unflatten(0, (batch, steps)).transpose(1, 2)


class ShortDropout(nn.Dropout):
    """Dropout by random numbers of 16 bits, four of them from one draw of 64.

    torch draws 64 bits for every number, which takes a fifth of a training step in windows.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p in (0, 1):
            return super().forward(input)
        draws = torch.empty(-(-input.numel() // 4), dtype=torch.int64, device=input.device).random_(-(2**63), None)
        numbers = draws.view(torch.int16)[: input.numel()].view(input.shape)  # from -2^15 to 2^15 - 1
        dropped = min(max(1, round(self.p * 2**16)), 2**16 - 1)  # of 2^16
        return input * ((numbers >= dropped - 2**15).to(input.dtype) * (2**16 / (2**16 - dropped)))
