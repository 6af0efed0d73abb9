"""Batch norm over all processes: the statistics of the whole batch, as if one process had seen it.

torch's own SyncBatchNorm does this on GPUs alone; this one does it wherever processes can add up numbers. A process without
examples of its own, when a batch is smaller than the number of processes, takes part with one that counts nowhere else.
"""

import torch
import torch.distributed.nn.functional as across
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SyncedBatchNorm(_BatchNorm):
    """Takes the place of a BatchNorm1d, 2d or 3d, with its parameters and buffers under the same names."""

    @classmethod
    def of(cls, layer: _BatchNorm) -> "SyncedBatchNorm":
        new = cls(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        for name, parameter in layer.named_parameters(recurse=False):
            setattr(new, name, parameter)
        for name, buffer in layer.named_buffers(recurse=False):
            setattr(new, name, buffer)
        return new.train(layer.training)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected (batch, channels, ...), got {tuple(input.shape)}")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        dims, shape = [0, *range(2, input.dim())], [1, -1, *[1] * (input.dim() - 2)]
        own = float(input.numel() // input.shape[1])
        sums = across.all_reduce(torch.cat([input.sum(dims), input.new_tensor([own])]))
        mean, count = sums[:-1] / sums[-1].detach(), sums[-1].detach()
        centred = input - mean.view(shape)
        variance = across.all_reduce(centred.square().sum(dims)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        normal = centred * (variance + self.eps).rsqrt().view(shape)
        return normal * self.weight.view(shape) + self.bias.view(shape) if self.affine else normal

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Running statistics, as torch keeps them."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), part)
        self.running_var.lerp_(variance.to(self.running_var), part)


def synchronise_(network: nn.Module) -> None:
    """Let every batch norm of the network speak for all processes, in place."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                setattr(parent, name, SyncedBatchNorm.of(layer))
