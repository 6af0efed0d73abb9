"""`python precision_trial.py bfloat16`: all that training does in a reduced precision, once. Run by `precision`, which watches."""

import sys
from contextlib import suppress

import torch
from torch import Tensor, nn


def products(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Products of matrices and convolutions, large enough for the fastest kernels that a processor announces."""
    matrix, signals, images = x.reshape(64, 64), x.reshape(4, 16, 64), x.reshape(1, 16, 16, 16)
    results = (
        matrix @ matrix,
        signals @ matrix,
        nn.Linear(64, 32, dtype=dtype)(matrix),
        nn.Conv1d(16, 32, 3, padding=1, dtype=dtype)(signals),
        nn.Conv2d(16, 32, 3, padding=1, dtype=dtype)(images),
    )
    return torch.stack([result.sum() for result in results]).sum()


def trial(dtype: torch.dtype) -> None:
    products(torch.randn(4096, dtype=dtype, requires_grad=True), dtype).backward()
    with torch.autocast("cpu", dtype=dtype):
        loss = products(torch.randn(4096, requires_grad=True), torch.float32)
    loss.backward()


if __name__ == "__main__":
    with suppress(ImportError):  # not Unix
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # dying is an answer, which needs no core file
    for name in sys.argv[1:]:
        trial(getattr(torch, name))
