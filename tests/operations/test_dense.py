"""The matrices that are drawn are those of the operation: padding, stride, domain and causality included."""

import pytest
import torch
from torch import nn

from xdops import XDOperation
from xdops.operations.dense import dense_operations

MODES = ("zeros", "circular", "reflect", "replicate")
CASES = [
    *((nn.Conv1d(1, 1, 3, padding=1, padding_mode=mode), {"domain": domain}) for mode in MODES for domain in ("full", "half")),
    (nn.Conv1d(1, 1, 3, padding=1, stride=2), {"depth": 3}),
    (nn.Conv1d(1, 1, 3, padding=2, dilation=2), {}),
    (nn.ConvTranspose1d(1, 1, 3, stride=2, padding=1), {}),
    (nn.Conv1d(1, 1, 3, padding=2), {"causal": True}),
]


@pytest.mark.parametrize("points", [11, 12])
@pytest.mark.parametrize(("conv", "options"), CASES)
@torch.no_grad()
def test_the_matrix_of_the_mean_filter_is_what_the_operation_does(conv: nn.Module, options: dict, points: int):
    op = XDOperation.from_conv(conv.double(), points, **options)
    for p in op.arch_parameters():
        p += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=p.dtype)
    op.weight.fill_(1 / 3)
    op.bias.zero_()
    (dense,) = dense_operations(op, (points,))
    outputs = op(torch.eye(points, dtype=torch.float64)[:, None])[:, 0]  # row s: what becomes of a one at input s
    torch.testing.assert_close(torch.from_numpy(dense.A.real), outputs.mT, rtol=1e-10, atol=1e-10)
