"""Small converted networks, and what their outputs and gradients are compared by, for the tests of torch's tools."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from toy_networks import train_step

from xdops import XDConfig, convert_
from xdops.spaces import darts_

X = torch.randn(3, 2, 12, generator=torch.Generator().manual_seed(0))

#: Operations of every kind: `@KINDS`, then configured(kind).
CONFIGS = {
    "xd": XDConfig(),
    "half": XDConfig(domain="half", b="trained"),
    "filters": XDConfig(shift_invariant=True, span=6),
    "causal": XDConfig(causal=True),
}
KINDS = pytest.mark.parametrize("kind", CONFIGS)


def filters_(model: nn.Module, example: Tensor, config: XDConfig) -> object:
    """Shift-invariant operations."""
    return convert_(model, example, dataclasses.replace(config, shift_invariant=True, span=6))


#: Networks of every search space, merged ones too: `@CASES` or `@SPACES`, then network(convert).
CASES = pytest.mark.parametrize(
    ("convert", "merged"),
    [(convert_, False), (convert_, True), (filters_, False), (filters_, True), (darts_, False)],
    ids=["xd", "merged", "filters", "merged filters", "darts"],
)
SPACES = pytest.mark.parametrize("convert", [convert_, filters_, darts_], ids=["xd", "filters", "darts"])


def backbone() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3), nn.ReLU(), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))


def configured(kind: str = "xd", moved: bool = True) -> nn.Sequential:
    model = backbone()
    convert_(model, X, CONFIGS[kind])
    if moved:
        train_step(model, X)
    return model.eval()


def network(convert: Callable[..., object] = convert_, dims: int = 1) -> nn.Sequential:
    """Trained a little, so that no operation is its convolution any longer."""
    torch.manual_seed(0)
    conv, norm, pool = ((nn.Conv1d, nn.BatchNorm1d, nn.AvgPool1d), (nn.Conv2d, nn.BatchNorm2d, nn.AvgPool2d))[dims - 1]
    model = nn.Sequential(conv(2, 4, 3, padding=1), norm(4), nn.ReLU(), pool(2), conv(4, 2, 3, dilation=2))
    x = X if dims == 1 else X[..., None] * torch.ones(12)
    convert(model, x, XDConfig(b="trained"))
    train_step(model, x)
    return model.eval()


def gradients(model: nn.Module, x: Tensor = X) -> list[Tensor]:
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def close(a: list[Tensor], b: list[Tensor], tolerance: float = 1e-4) -> None:
    assert len(a) == len(b) > 0
    for s, t in zip(a, b, strict=True):
        torch.testing.assert_close(s, t, rtol=tolerance, atol=tolerance * float(t.detach().abs().max()))
