"""The temporal convolutional network (Bai, Kolter, Koltun 2018): causal convolutions with residual connections.

Level l has two [weight-normed causal convolution, ReLU, dropout] and a residual connection, all of dilation 2^l; the *undilated*
network, which the paper searches around, has dilation 1 throughout. Convolutions pad both sides, and what they say after the end
is cut off, so that they are plain layers that can be searched. (batch, channels, T) -> (batch, width, T).
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from xdops.backbones.request import Request
from xdops.errors import XDError
from xdops.operations import XDOperation


class TemporalBlock(nn.Module):
    """relu(shortcut(x) + f(f(x))) with f = dropout(relu(causal convolution)); the shortcut is 1x1 where widths differ.

    last_only: it says nothing but its last step, (batch, c_out, 1), for whoever uses no other.
    """

    def __init__(self, c_in: int, c_out: int, kernel: int, dilation: int, dropout: float, normed: bool = True) -> None:
        super().__init__()
        pad = (kernel - 1) * dilation
        self.conv1: nn.Module = nn.Conv1d(c_in, c_out, kernel, padding=pad, dilation=dilation)
        self.conv2: nn.Module = nn.Conv1d(c_out, c_out, kernel, padding=pad, dilation=dilation)
        if normed:
            self.conv1, self.conv2 = weight_norm(self.conv1), weight_norm(self.conv2)
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)
        self.shortcut: nn.Module | None = None
        if c_in != c_out:
            self.shortcut = nn.Conv1d(c_in, c_out, 1)
            nn.init.normal_(self.shortcut.weight, 0, 0.01)
        self.last_only = False

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[-1]
        y = self.dropout1(self.conv1(x)[..., :steps].relu())
        if self.last_only:
            y, x = last_output(self.conv2, y), x[..., -1:]
        else:
            y = self.conv2(y)[..., :steps]
        y = self.dropout2(y.relu())
        return (y + (x if self.shortcut is None else self.shortcut(x))).relu()


def last_output(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x) at the last step of x, (batch, channels, 1)."""
    if isinstance(layer, XDOperation):
        return layer.last(x)
    steps = x.shape[-1]
    y: Tensor = layer(x)[..., steps - 1 : steps]
    return y


def temporal_levels(
    c_in: int, widths: Sequence[int], kernel: int, dropout: float, dilated: bool, normed: bool = True
) -> nn.Sequential:
    """One block per width."""
    pairs = zip((c_in, *widths), widths, strict=False)
    return nn.Sequential(*(TemporalBlock(a, b, kernel, 2**i if dilated else 1, dropout, normed) for i, (a, b) in enumerate(pairs)))


def receptive_field(levels: int, kernel: int, dilated: bool) -> int:
    """How many steps, the present one included, an output can depend on."""
    return 1 + 2 * (kernel - 1) * (2**levels - 1 if dilated else levels)


class TCN(nn.Module):
    """Predictions at every step, (batch, outputs, T), each from what was before; for classification at the last step alone."""

    def __init__(
        self,
        request: Request,
        levels: int,
        kernel: int,
        width: int,
        dropout: float = 0.0,
        dilated: bool = True,
        normed: bool = True,
    ) -> None:
        super().__init__()
        self.last = request.kind == "classification"
        self.levels = temporal_levels(request.in_channels, (width,) * levels, kernel, dropout, dilated, normed)
        self.head = nn.Linear(width, request.outputs)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.levels(x)
        if self.last:
            return self.head(y[..., -1])
        return self.head(y.transpose(1, 2)).transpose(1, 2)


def small_tcn(request: Request, dilated: bool = True) -> TCN:
    """Four levels of 64 channels, filters of 3 points, weights as they are, so that every search space holds them."""
    if request.dims != 1:
        raise XDError(f"a TCN for {request.dims} dimensions", "sequences: one dimension", "--backbone auto")
    return TCN(request, levels=4, kernel=3, width=64, dropout=0.1, dilated=dilated, normed=False)


def undilated_tcn(request: Request) -> TCN:
    """The same without dilation: a search finds out how far to look."""
    return small_tcn(request, dilated=False)


class WordTCN(nn.Module):
    """A language model: numbers of words (batch, T) -> scores of the next word (batch, words, last), at the `last` steps alone.

    The decoder's weight is the embedding's. dropout is that of the levels, embedding_dropout that of the embedded words.
    """

    def __init__(
        self,
        words: int,
        width: int,
        levels: int,
        kernel: int,
        last: int,
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        dilated: bool = True,
    ) -> None:
        super().__init__()
        self.last = last
        self.embedding = nn.Embedding(words, width)
        nn.init.normal_(self.embedding.weight, 0, 0.01)
        self.dropout = nn.Dropout(embedding_dropout)
        self.levels: nn.Module = temporal_levels(width, (width,) * levels, kernel, dropout, dilated)
        self.decoder = nn.Linear(width, words)
        nn.init.zeros_(self.decoder.bias)
        self.decoder.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        y = self.levels(self.dropout(self.embedding(words)).transpose(1, 2))
        return self.decoder(y[..., -self.last :].transpose(1, 2)).transpose(1, 2)
