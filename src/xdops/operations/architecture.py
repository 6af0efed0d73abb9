"""What every kind of XD-operation has: its architecture a = (K, L, M, b, C), of which parts learn, and the layer it began as."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from xdops.arguments import checked
from xdops.errors import XDError
from xdops.matrices import KMatrix, Kronecker, LearnableKMatrix
from xdops.matrices.learnable import read
from xdops.operations.source import Source, Start

#: The architecture parameters, by the paper's names.
ARCHITECTURE = ("K", "L", "M", "b", "C")

#: What a convolution says about itself, and an operation too.
GEOMETRY = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "output_padding", "transposed", "groups",
    "padding_mode",
)  # fmt: skip


#: What of that is fixed when an operation is made: its axes are made from it, and do not look at it again.
FIXED = frozenset(GEOMETRY) - {"in_channels", "out_channels"}


class FixedGeometry(nn.Module):
    """Refuses what a convolution would take: another stride, padding or dilation, set on a layer that is there already."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and name in self.__dict__ and value != self.__dict__[name]:
            raise XDError(
                f"{name} = {value!r}, set on a {type(self).__name__}",
                f"{self.__dict__[name]!r}: where inputs and outputs sit is fixed when an operation is made",
                "xdops.revert_(model), change the convolution, then xdops.convert_(model, x)",
            )
        super().__setattr__(name, value)


def computes_weight(hook: object) -> bool:
    """Whether it is one of torch's hooks that compute a layer's weight anew at every call: pruning, and the older norms."""
    return isinstance(hook, BasePruningMethod | SpectralNorm | WeightNorm)


class BaseOperation(FixedGeometry):
    """K, L, M: one K-matrix per dimension. b, C: real pairs, or None for absent. `trained` names the parameters that learn; the
    others are fixed. `source` is the layer that the warm start was made from.
    """

    K: nn.ModuleList
    L: nn.ModuleList
    M: nn.ModuleList
    b: nn.Parameter | None
    C: nn.Parameter | None
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]

    def _register(
        self,
        K: Sequence[KMatrix],
        L: Sequence[KMatrix],
        M: Sequence[KMatrix],
        b: Tensor | None,
        C: Tensor | None,
        trained: Iterable[str],
        source: Source | None,
    ) -> None:
        check_names(trained := list(trained), 'trained=("K", "M")')
        present = {name for name, part in zip(ARCHITECTURE, (K, L, M, b, C), strict=True) if part is not None}
        self.trained = frozenset(trained) & present
        for name, matrices in (("K", K), ("L", L), ("M", M)):
            setattr(self, name, nn.ModuleList(LearnableKMatrix(m, name in self.trained) for m in matrices))
        for name, part in (("b", b), ("C", C)):
            value = None if part is None else nn.Parameter(part.detach().clone(), requires_grad=name in self.trained)
            self.register_parameter(name, value)
        self.source = source
        self._start = None if source is None else Start(p for _, p in self.architecture())

    def __setattr__(self, name: str, value: Any) -> None:
        # Folding scales the weight, which b is no part of. It asks for nothing that could be refused but to set the weight.
        if name == "weight" and sys._getframe(1).f_code is fuse_conv_bn_eval.__code__ and self.b is not None:
            raise XDError(
                "an operation with b, for a batch norm to be folded into its weight",
                "an operation without b, which has no place in the weight",
                "xdops.merge_(model), and leave the batch norm where it is",
            )
        super().__setattr__(name, value)

    def architecture(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every architecture parameter that is present, trained or fixed, with its name; as it is now, whoever put it there."""
        for name in ("K", "L", "M"):
            for i, matrix in enumerate(self._learnable(name)):
                yield from ((f"{name}.{i}.values.{j}", p) for j, p in enumerate(matrix.values))
        for name in ("b", "C"):
            if (parameter := getattr(self, name)) is not None:
                yield name, parameter

    def arch_parameters(self) -> list[nn.Parameter]:
        """The architecture parameters that learn."""
        return [p for name, p in self.architecture() if name.split(".")[0] in self.trained]

    def weight_parameters(self) -> list[nn.Parameter]:
        """Filters and output bias."""
        architecture = {id(p) for _, p in self.architecture()}
        return [p for p in self.parameters() if id(p) not in architecture]

    def matrix(self, name: str) -> Kronecker:
        """K, L or M as it is now."""
        return Kronecker([m.matrix for m in self._learnable(name)])

    def _weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def _check_tensors(self, weight: Tensor, bias: Tensor | None) -> None:
        """Refuse filters, bias, b and C of other shapes than the operation was made for, and an architecture that is elsewhere than
        the filters, whoever put them there: kernels see memory as it lies. K, L and M check their own shapes."""
        b, C = read(self, "b"), read(self, "C")
        for t in (*self._values(), b, C):
            if t is not None and t.device != weight.device:
                _refuse_place(weight.device, t.device)
        _check_shape("weight", weight, self._weight_shape())
        if bias is not None:
            _check_shape("bias", bias, (self.out_channels,))
        if b is not None:
            _check_shape("b", b, (*[m.points for m in self._learnable("M")], 2))
        if C is not None:
            _check_shape("C", C, (self.out_channels, self.in_channels // self.groups, 2))

    def _learnable(self, name: str) -> list[LearnableKMatrix]:
        matrices: Any = self._modules[name]  # past the lookups of nn.Module, which small layers would feel
        return list(matrices._modules.values())

    @property
    def depth(self) -> tuple[int, int, int]:
        """Depths of K, L and M."""
        return self.matrix("K").depth, self.matrix("L").depth, self.matrix("M").depth

    @property
    def untouched(self) -> bool:
        """Whether the architecture still has, to the bit, the values of its warm start from a layer."""
        return self._start is not None and self._start.is_now(self._tensors())

    def _is_source(self) -> bool:
        """Whether the layer itself may stand in: the architecture is fixed, and has its first values."""
        if self.source is None or self._start is None:
            return False
        tensors = self._tensors()
        if torch.is_grad_enabled() and any(p.requires_grad for p in tensors):
            return False
        return self._start.is_now(tensors)

    def _tensors(self) -> list[Tensor]:
        """What `architecture` lists, without names, for code that is run at every call."""
        return self._values() + [part for name in "bC" if (part := read(self, name)) is not None]

    def _values(self) -> list[Tensor]:
        """Those of all butterflies: of K, dimension by dimension, then of L, then of M."""
        return [v for name in "KLM" for matrix in self._learnable(name) for v in matrix.tensors()]

    @contextmanager
    def by_architecture(self) -> Iterator[None]:
        """Within this context the operation is evaluated by its architecture, even while that is its source's."""
        source, self.source = self.source, None
        try:
            yield
        finally:
            self.source = source

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Within this context a weight that is computed is the one that a call in eval mode would use.

        Outside, a pruned weight is that of the last call, and spectral_norm changes its own at every look in training mode.
        """
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            for hook in self._forward_pre_hooks.values():
                if computes_weight(hook):
                    hook(self, ())
            yield
        finally:
            for module, training in modes.items():
                module.training = training

    @checked
    def freeze(self, *names: str) -> Self:
        """Fix architecture parameters by name (all of them without names)."""
        return self._train(names, False)

    @checked
    def unfreeze(self, *names: str) -> Self:
        """Let architecture parameters learn, by name (all of them without names)."""
        return self._train(names, True)

    def _train(self, names: Sequence[str], trained: bool) -> Self:
        check_names(names, "op.freeze('K', 'b')")
        chosen = set(names or ARCHITECTURE)
        for name, parameter in self.architecture():
            if name.split(".")[0] in chosen:
                parameter.requires_grad_(trained)
        present = {name.split(".")[0] for name, _ in self.architecture()} & chosen
        self.trained = self.trained | present if trained else self.trained - present
        return self

    def look_like(self, conv: nn.Module) -> None:
        """Take over what the convolution says about itself, which a network's own code may read. It computes by its own axes."""
        for name in ("stride", "padding", "dilation", "output_padding", "transposed"):
            nn.Module.__setattr__(self, name, getattr(conv, name))

    def _looking_like_this(self, module: nn.Module) -> nn.Module:
        for name in GEOMETRY:
            if not hasattr(module, name) and hasattr(self, name):
                setattr(module, name, getattr(self, name))
        return module

    def _said_of_training(self) -> str:
        return f"trained={''.join(n for n in ARCHITECTURE if n in self.trained) or 'nothing'}"


def check_names(names: Sequence[str], example: str) -> None:
    """Refuse what is no architecture parameter."""
    if unknown := set(names) - set(ARCHITECTURE):
        raise XDError(f"architecture parameters {sorted(unknown)}", f"some of {', '.join(ARCHITECTURE)}", example)


def _refuse_place(weight: torch.device, architecture: torch.device) -> None:
    empty = "meta" in (weight.type, architecture.type)
    raise XDError(
        f"an operation whose weight is on {weight} and whose architecture, in part, on {architecture}",
        "all of it on one device" + (", with values" if empty else ""),
        "model.to_empty(device='cpu'), then load all of its state" if empty else f"model.to({str(weight)!r})",
    )


def _check_shape(name: str, given: Tensor, expected: tuple[int, ...]) -> None:
    if given.shape != expected:
        raise XDError(
            f"{name} of shape {tuple(given.shape)}",
            f"{expected}, for which the operation was made",
            "XDOperation.from_conv of a convolution that has it",
        )
