"""Where examples come from: anything that makes batches of chosen examples, with inputs, targets, and which targets count.

The order of the examples is not the source's business: a search draws it from (seed, epoch), see `xdops.search.batches`, so that a
run continues exactly wherever it stopped.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from xdops.arguments import check_fields
from xdops.errors import XDError, several


@dataclass(frozen=True)
class Batch:
    """x: what the network takes; y (batch, ...): the targets; mask, of the leading shape of y: where they count, None: everywhere.

    Predictions have their channels second, (batch, outputs, ...), over the places that the mask is about.
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None

    def part(self, part: slice) -> "Batch":
        return Batch(self.x[part], self.y[part], None if self.mask is None else self.mask[part])

    def counted(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        """Prediction and targets, with a mask only where they count: (places, outputs) and (places, ...), in order."""
        if self.mask is None:
            return prediction, self.y
        places = prediction.movedim(1, -1)
        if bool(self.mask.all()):  # one sequence at a time, say: nothing to pick
            return places.flatten(0, self.mask.dim() - 1), self.y.flatten(0, self.mask.dim() - 1)
        return places[self.mask], self.y[self.mask]


class Examples(Protocol):
    """A set of examples: `Split` in memory, `Sequences` of different lengths, or whatever makes batches in its own way."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        """These examples. generator: in training alone, for a source that draws (crops, say), where all its randomness is from."""
        ...

    def weight(self, indices: Tensor) -> int:
        """How many units these examples are, of which a mean loss is the mean: examples, or time steps that count."""
        ...

    def signature(self) -> dict[str, Any]:
        """JSON data that tells this set from another."""
        ...


@dataclass(frozen=True)
class Split:
    """Examples of one size: x (N, ...) and y (N, ...)."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        check_fields(self)
        if self.x.dim() == 0 or self.y.dim() == 0 or len(self.x) != len(self.y):
            raise XDError(
                f"x of shape {tuple(self.x.shape)} and y of shape {tuple(self.y.shape)}",
                "as many targets as inputs",
                "x[:N], y[:N]",
            )
        if len(self.x) == 0:
            raise XDError("no examples", "at least one", "a larger part of the data")

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        return Batch(self.x[indices], self.y[indices])

    def weight(self, indices: Tensor) -> int:
        return len(indices)

    def signature(self) -> dict[str, Any]:
        """Shapes, types and checksums."""
        return {name: fingerprint(t) for name, t in (("x", self.x), ("y", self.y))}


@dataclass(frozen=True)
class Sequences:
    """Sequences of different lengths, stored one after the other.

    x (steps, channels) and y (steps, ...) are as long as all `lengths` together; counted (steps,): which steps' targets count,
    None: all. A batch is padded at its end with zeros that do not count: x (batch, channels, longest), y (batch, longest, ...).
    """

    x: Tensor
    y: Tensor
    lengths: tuple[int, ...]
    counted: Tensor | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_lengths(self.lengths, len(self.x), "x")
        if len(self.y) != len(self.x) or (self.counted is not None and self.counted.shape != self.x.shape[:1]):
            raise XDError(f"{several(len(self.x), 'step')} of x and {len(self.y)} of y", "a target for every step", "y[:len(x)]")
        if self.counted is not None and not all(bool(self.counted[place].any()) for place in self._places):
            raise XDError("a sequence of which no step counts", "at least one step of each", "leave it out")

    @cached_property
    def _places(self) -> list[slice]:
        ends = list(accumulate(self.lengths))
        return [slice(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        parts = [self._places[i] for i in indices.tolist()]
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        x = pad([self.x[part] for part in parts]).transpose(1, 2).contiguous()
        counted = torch.ones(len(self.x), dtype=torch.bool) if self.counted is None else self.counted
        return Batch(x, pad([self.y[part] for part in parts]), pad([counted[part] for part in parts]))

    def weight(self, indices: Tensor) -> int:
        """Steps that count."""
        if self.counted is None:
            return sum(self.lengths[i] for i in indices.tolist())
        return sum(int(self.counted[self._places[i]].sum()) for i in indices.tolist())

    def signature(self) -> dict[str, Any]:
        tensors = {"x": self.x, "y": self.y, "length": torch.tensor(self.lengths)}
        return {name: fingerprint(t) for name, t in tensors.items()} | (
            {} if self.counted is None else {"counted": fingerprint(self.counted)}
        )


def check_lengths(lengths: Sequence[int], steps: int, name: str) -> None:
    """Refuse lengths that are not those of sequences which make up `steps` steps together."""
    if not lengths:
        raise XDError("no sequences", "at least one", "a larger part of the data")
    empty = [i for i, length in enumerate(lengths) if length < 1]
    if empty:
        raise XDError(
            f"sequence {empty[0]} of length {lengths[empty[0]]}" + (f", and {len(empty) - 1} more like it" if empty[1:] else ""),
            "sequences of at least one step",
            "drop empty sequences",
        )
    if sum(lengths) != steps:
        raise XDError(
            f"{name} with {several(steps, 'step')}, and {several(len(lengths), 'length')} that add up to {sum(lengths):,}",
            "sequences one after the other, whose lengths add up to all steps",
            "length = [len(s) for s in sequences], x = numpy.concatenate(sequences)",
        )


def fingerprint(tensor: Tensor) -> dict[str, Any]:
    """Shape, type and checksum."""
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "crc32": zlib.crc32(data)}
