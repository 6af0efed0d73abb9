"""The XD search space over a backbone: every chosen layer becomes an XD-operation that starts out as exactly that layer."""

import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xdops.convert import weights
from xdops.convert.config import XDConfig
from xdops.convert.edges import Origin, relative_distance
from xdops.convert.layers import Shortcut, blank, centre, each, has_own_forward, plain_conv
from xdops.convert.replace import Built, Candidate, FilterFn, LeaveAlone, count, must_equal, replace_
from xdops.convert.report import ConversionReport, by
from xdops.convert.start import Size, explicit_sizes, operation, perturb_
from xdops.convert.uses import ExampleInput, preserved_rng
from xdops.errors import XDError
from xdops.operations import XDOperation
from xdops.operations.catalogue.fourier import SpectralConv, from_filters


def convert_(
    model: nn.Module,
    example_input: ExampleInput,
    config: XDConfig = XDConfig(),  # noqa: B008  frozen
    filter_fn: FilterFn | None = None,
) -> ConversionReport:
    """Relax the layers of `model` into XD-operations that compute the same, in place; print what it returns.

    example_input: a tensor, a tuple of positional arguments or a dict of keyword arguments for one run of the model, which tells
    the sizes that each layer sees. filter_fn(name, module) says which layers may be converted.
    """
    return replace_(model, example_input, config, filter_fn, build)


@dataclass
class XDOrigin(Origin):
    """How an operation was made: enough to give its layer back and to compute its start again."""

    module: nn.Module  # the layer that stood here
    source: nn.Module  # what the operation starts as: a plain convolution (perhaps grown), a SpectralConv, a pool or a Shortcut
    channels: tuple[int, int]
    input_size: tuple[int, ...]
    size: Size
    config: XDConfig
    seed: int
    dtype: torch.dtype

    def operation(self, source: nn.Module) -> XDOperation:
        """The warm start from a source of this shape."""
        with preserved_rng(self.seed):
            return operation(source, self.channels, self.input_size, self.size, self.config, self.dtype)

    def warm_start(self) -> list[Tensor]:
        """The architecture of the source itself, in the dtype of the conversion, so that a later .to(dtype) is no change."""
        return self.now(self.operation(blank(self.source, self.dtype)))

    def start(self) -> list[Tensor]:
        architecture = self.warm_start()
        perturb_([p for p in architecture if p.requires_grad], self.config.perturb, self.seed)
        return architecture

    def now(self, edge: nn.Module) -> list[Tensor]:
        assert isinstance(edge, XDOperation)
        return [p for _, p in edge.architecture()]

    def give_back(self, edge: nn.Module) -> tuple[nn.Module, float, str]:
        assert isinstance(edge, XDOperation)
        change = relative_distance(self.now(edge), self.warm_start())
        note = "" if change == 0 else "the learned architecture is lost"
        if not has_weight(self.source):
            return self.module, change, note
        if isinstance(self.source, SpectralConv):
            self.source.weight.data = from_filters(edge.weight.detach(), self.source.modes)
            return self.source, change, note
        if self.source.kernel_size == self.module.kernel_size:
            weights.give_back(edge, self.module)
            return self.module, change, note
        module: Any = self.module
        kept = centre(edge.weight, module.kernel_size)
        if edge.weight.count_nonzero() > kept.count_nonzero():  # taps around the original ones have learned
            weights.give_back(edge, self.source)
            return self.source, change, "; ".join(filter(None, (note, f"its filters stay grown to {by(edge.kernel_size)}")))
        module.weight.data = kept.detach().clone()
        module.bias = edge.bias
        return module, change, note


def build(candidate: Candidate) -> Built:
    """The operation of one layer."""
    module, config, kind = candidate.module, candidate.config, candidate.kind
    if config.causal and kind != "conv":
        raise LeaveAlone("only convolutions can be causal")
    source: Any = source_of(candidate)
    like = candidate.inputs[0]
    origin = XDOrigin(
        module,
        source,
        candidate.channels,
        candidate.input_size,
        explicit_sizes(source, candidate.inputs, config),
        config,
        config.seed + zlib.crc32(candidate.name.encode()),  # layers differ, in whatever order they come
        source.weight.dtype if has_weight(source) else like.dtype,
    )
    op = origin.operation(source).to(like.device)
    if kind == "avg_pool":
        must_equal(op, candidate)  # where fewer entries count at the border, one operation cannot serve inputs of several sizes
    perturb_([*op.arch_parameters()], config.perturb, origin.seed)
    if weights.is_computed(module):
        weights.share(module, op)
    note = "starts as the average pool of the same size" if kind == "max_pool" else ""
    if kind in ("conv", "transposed") and config.boundary == "wrap":
        note = "wraps around at the boundary, where the error is"
    return Built(op, origin, "XD", op.sizes, op.depth, count(op), note)


def has_weight(source: nn.Module) -> bool:
    return getattr(source, "weight", None) is not None


def source_of(candidate: Candidate, grow: bool = True) -> nn.Module:
    """What the layer is, without subclasses and hooks; its filters grown if the config and `grow` say so."""
    module: Any = candidate.module
    if candidate.kind in ("conv", "transposed"):
        same = plain(module)
        if has_own_forward(module):
            must_equal(same, candidate)
        return grown(candidate) if grow and grows(candidate) else same
    if candidate.kind in ("fourier", "avg_pool", "max_pool"):
        if has_own_forward(module):
            raise LeaveAlone("its class has a forward of its own")
        if candidate.kind == "fourier":
            check_fourier(candidate)
        if getattr(module, "divisor_override", None) is not None:
            raise LeaveAlone("it has a divisor_override")
        return module
    return shortcut(candidate)


def check_fourier(candidate: Candidate) -> None:
    """Leave alone a Fourier layer that no single operation with weights of its own can stand for."""
    if candidate.tied or weights.is_computed(candidate.module):
        raise LeaveAlone("its weight is shared or computed, and cannot be arranged as an operation's filters")
    grids = {tuple(x.shape[2:]) for x in candidate.inputs}
    if len(grids) > 1:
        raise LeaveAlone(
            f"used on grids of {' and '.join(map(by, sorted(grids)))} points, on each of which it is another operation"
        )


def plain(module: Any) -> Any:
    """A torch convolution with the module's own parameters, or with copies of those that are computed."""
    conv = plain_conv(module)
    for name in ("weight", "bias"):
        value = getattr(module, name)
        setattr(conv, name, value if value is None or isinstance(value, nn.Parameter) else nn.Parameter(value.detach().clone()))
    return conv


def grows(candidate: Candidate) -> bool:
    return any(k < (candidate.config.kernel_size or 1) for k in each(candidate.module.kernel_size, 1))


def grown(candidate: Candidate) -> Any:
    """The convolution with zeros around its filters."""
    module: Any = candidate.module
    if candidate.tied or weights.is_computed(module):
        why = "is shared with another module" if candidate.tied else "is computed (weight_norm, spectral_norm, ...)"
        raise XDError(
            f"kernel_size={candidate.config.kernel_size} for a layer whose weight {why}",
            "a weight that is the layer's own parameter, so that it can grow",
            f'overrides={{"{candidate.name}": {{"kernel_size": None}}}}',
        )
    conv = plain_conv(module, candidate.config.kernel_size)
    shortest = [min(seen) for seen in zip(*(x.shape[2:] for x in candidate.inputs), strict=True)]
    room = {"reflect": 1, "circular": 0}.get(conv.padding_mode)
    padding = conv._reversed_padding_repeated_twice[::-2]  # also where it is "same"
    if room is not None and any(p > m - room for p, m in zip(padding, shortest, strict=True)):
        raise XDError(
            f"kernel_size={candidate.config.kernel_size} for inputs of {by(shortest)} with {conv.padding_mode} padding",
            f"inputs large enough for padding {by(padding)}",
            f'overrides={{"{candidate.name}": {{"kernel_size": None}}}}',
        )
    with torch.no_grad():
        conv.weight.zero_()
        centre(conv.weight, module.kernel_size).copy_(module.weight)
    conv.weight.requires_grad_(module.weight.requires_grad)
    conv.bias = module.bias
    return conv


def shortcut(candidate: Candidate) -> Shortcut:
    """The stride and channel padding by which a parameter-free module does what it does to the recorded inputs."""
    c_in, c_out = candidate.channels
    x, y = candidate.uses.pairs[0]
    stride = [-(-m // out) for m, out in zip(x.shape[2:], y.shape[2:], strict=True)] if x.dim() == y.dim() else []
    for offset in sorted(range(c_out - c_in + 1), key=lambda o: abs(o - (c_out - c_in) // 2)):
        found = Shortcut(stride, c_in, c_out, offset)
        if stride and all(torch.equal(found(x), y) for x, y in candidate.uses.pairs):
            return found
    raise LeaveAlone("it is not a subsampling with zero-padded channels")
