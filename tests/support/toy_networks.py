"""Toy networks in every style of building one: the table that drives every behaviour that must hold for all of them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from xdops import arch_parameters, weight_parameters


class Residual(nn.Module):
    def __init__(self, body: nn.Module, skip: nn.Module) -> None:
        super().__init__()
        self.body, self.skip = body, skip

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class SharedAtTwoSizes(nn.Module):
    """One convolution, registered under two names and used at two sizes."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, **options)
        self.again = self.conv

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.again(y[..., :-1, :-2])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(3, 4, 5, padding=2)

    def forward(self, a: Tensor, *, b: Tensor | None = None, scale: float = 1.0) -> Tensor:
        return self.left(a) + scale * self.right(b)


class Positional(TwoInputs):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(a, b=b)


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(2))
        self.named = nn.ModuleDict({"a": nn.Conv1d(4, 4, 3, padding="same"), "b": nn.AvgPool1d(2)})

        class Block(nn.Sequential):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) + 1

        self.block = Block(nn.Conv1d(4, 4, 1), nn.ReLU(inplace=True), nn.Conv1d(4, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.stack:
            x = torch.relu_(layer(x))
        return self.block(self.named["b"](self.named["a"](x)))


class Unreached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class MyConv(nn.Conv2d):
    pass


def conv1d(**options):
    return nn.Sequential(nn.Conv1d(4, 6, **options), nn.ReLU()), torch.randn(2, 4, 12)


def conv2d(c_in=4, c_out=6, **options):
    return nn.Sequential(nn.Conv2d(c_in, c_out, **options), nn.ReLU()), torch.randn(2, c_in, 9, 10)


def transposed(dims, **options):
    kinds = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
    return nn.Sequential(kinds[dims](4, 2, **options)), torch.randn(2, 4, *(5, 4, 3)[:dims])


def old_weight_norm():
    with pytest.warns(FutureWarning):
        return nn.Sequential(torch.nn.utils.weight_norm(nn.Conv1d(4, 6, 3, padding=2, dilation=2)), nn.ReLU()), torch.randn(
            2, 4, 12
        )


CASES = {
    "plain 1d": lambda: conv1d(kernel_size=3, padding=1),
    "plain 2d without padding": lambda: conv2d(kernel_size=5),
    "plain 3d": lambda: (nn.Sequential(nn.Conv3d(2, 3, 3, padding=1)), torch.randn(2, 2, 4, 5, 6)),
    "groups": lambda: conv2d(kernel_size=3, padding=1, groups=2),
    "depthwise": lambda: conv2d(4, 8, kernel_size=3, padding=1, groups=4),
    "pointwise": lambda: conv2d(kernel_size=1, bias=False),
    "even kernel": lambda: conv2d(kernel_size=(2, 4), padding=(1, 2)),
    "strided": lambda: conv2d(kernel_size=3, stride=(2, 3), padding=1),
    "dilated": lambda: conv1d(kernel_size=3, dilation=2, padding=2),
    "same": lambda: conv2d(kernel_size=(4, 3), padding="same"),
    "circular": lambda: conv2d(kernel_size=3, padding=1, padding_mode="circular"),
    "reflect": lambda: conv2d(kernel_size=3, padding=1, stride=2, padding_mode="reflect"),
    "replicate": lambda: conv1d(kernel_size=5, padding="same", padding_mode="replicate"),
    "transposed 1d": lambda: transposed(1, kernel_size=4, stride=2, padding=1),
    "transposed 2d": lambda: transposed(2, kernel_size=3, stride=2, output_padding=1, groups=2),
    "transposed 3d": lambda: transposed(3, kernel_size=2, stride=2, bias=False),
    "subclass": lambda: (nn.Sequential(MyConv(3, 4, 3)), torch.randn(2, 3, 8, 8)),
    "batch norm, dropout and pools": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.AvgPool2d(2),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.Flatten(), nn.Linear(16, 3),
        ),
        torch.randn(3, 3, 8, 8),
    ),
    "average pools 1d and 3d": lambda: (
        nn.Sequential(nn.AvgPool1d(3, 2, 1), nn.Unflatten(2, (2, 2, 2)), nn.AvgPool3d((1, 2, 2), 1)), torch.randn(2, 3, 16),
    ),
    "residual": lambda: (
        Residual(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)), nn.Identity()), torch.randn(2, 3, 8, 8),
    ),
    "shared at two sizes": lambda: (SharedAtTwoSizes(padding=1), torch.randn(2, 3, 9, 8)),
    "shared at two sizes, circular": lambda: (SharedAtTwoSizes(padding=1, padding_mode="circular"), torch.randn(2, 3, 9, 8)),
    "weight norm": lambda: (
        nn.Sequential(parametrizations.weight_norm(nn.Conv1d(4, 6, 3, padding=2, dilation=2)), nn.ReLU()), torch.randn(2, 4, 12),
    ),
    "weight norm by a hook": old_weight_norm,
    "spectral norm": lambda: (nn.Sequential(parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))), torch.randn(2, 3, 8, 8)),
    "two positional inputs": lambda: (Positional(), (torch.randn(2, 2, 8), torch.randn(2, 3, 8))),
    "keyword inputs": lambda: (TwoInputs(), {"a": torch.randn(2, 2, 8), "b": torch.randn(2, 3, 8), "scale": 0.5}),
    "containers": lambda: (Containers(), torch.randn(2, 4, 10)),
    "unreached layer": lambda: (Unreached(), torch.randn(2, 2, 8)),
    "one point": lambda: (nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 3, padding=1)), torch.randn(2, 3, 1, 1)),
}  # fmt: skip


def network(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, object]:
    torch.manual_seed(0)
    model, example = CASES[name]()

    def cast(value):
        return value.to(dtype) if isinstance(value, Tensor) else value

    if isinstance(example, tuple):
        example = tuple(map(cast, example))
    elif isinstance(example, dict):
        example = {key: cast(value) for key, value in example.items()}
    else:
        example = cast(example)
    return model.to(dtype), example


def run(model: nn.Module, example: object) -> Tensor:
    if isinstance(example, tuple):
        return model(*example)
    return model(**example) if isinstance(example, dict) else model(example)


def train_step(model: nn.Module, example: object) -> None:
    groups = [{"params": weight_parameters(model)}, {"params": arch_parameters(model), "lr": 1e-2}]
    optimizer = torch.optim.Adam(groups, lr=1e-2)
    run(model, example).square().mean().backward()
    optimizer.step()


class ModelAsDataset(torch.utils.data.Dataset):
    """A network's outputs, computed where they are asked for: in the worker of a data loader."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        self.model, self.x = model, x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Tensor:
        with torch.no_grad():
            return self.model(self.x[i : i + 1])[0]
