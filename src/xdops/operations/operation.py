"""The XD-operation as a layer: its architecture a = (K, L, M, b, C), its weights w, and where inputs and outputs sit."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from xdops.engine.plan import Plan, make_plan, rates
from xdops.errors import XDError
from xdops.matrices import KMatrix, Kronecker, LearnableKMatrix
from xdops.matrices.pairs import to_complex
from xdops.operations.axes import Axis
from xdops.operations.causal import causal_definition
from xdops.operations.definition import check_input, xd_operation
from xdops.operations.evaluate import evaluate, prepare_merged, problem
from xdops.operations.source import Source, Start

#: The architecture parameters, by the paper's names.
ARCHITECTURE = ("K", "L", "M", "b", "C")


class XDOperation(nn.Module):
    """Re((K_1 (x) ... (x) K_N) diag(C (L w + b)) (M_1 (x) ... (x) M_N) x) + bias, in 1, 2 or 3 dimensions.

    K, L, M: one K-matrix per dimension. b: (n..., 2) or None for absent. C: (c_out, c_in/groups, 2) or None. `trained` names the
    architecture parameters that learn; the others are fixed. weight: (c_out, c_in/groups, k...), with a trailing 2 if complex; with
    `transposed_weight` its first two dimensions are laid out as in a transposed convolution, (c_in, c_out/groups, k...).
    causal: in one dimension, output t never depends on an input after t + causal, whatever the architecture becomes. `plan` is
    the way to evaluate, "auto" or a name (see `operations.plan`); `source` is the layer that the warm start was made from.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        weight: Tensor,
        K: Sequence[KMatrix],
        L: Sequence[KMatrix],
        M: Sequence[KMatrix],
        b: Tensor | None = None,
        C: Tensor | None = None,
        bias: Tensor | None = None,
        groups: int = 1,
        trained: Iterable[str] = ARCHITECTURE,
        padding_mode: str = "zeros",
        transposed_weight: bool = False,
        complex_weight: bool = False,
        weight_columns: Sequence[Tensor] | None = None,
        causal: int | None = None,
        source: Source | None = None,
        plan: str | Plan = "auto",
    ) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.groups, self.padding_mode = groups, padding_mode
        self.transposed_weight, self.complex_weight = transposed_weight, complex_weight
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.bias = bias if bias is None or isinstance(bias, nn.Parameter) else nn.Parameter(bias)
        self._check(K, L, M, b, C)
        self.trained = frozenset(trained) & {
            name for name, part in zip(ARCHITECTURE, (K, L, M, b, C), strict=True) if part is not None
        }
        for name, matrices in (("K", K), ("L", L), ("M", M)):
            setattr(self, name, nn.ModuleList(LearnableKMatrix(m, name in self.trained) for m in matrices))
        for name, part in (("b", b), ("C", C)):
            self.register_parameter(
                name, None if part is None else nn.Parameter(part.detach().clone(), requires_grad=name in self.trained)
            )
        for i, columns in enumerate(weight_columns or ()):
            self.register_buffer(f"weight_columns_{i}", columns)
        self.places_weight = weight_columns is not None
        self.causal, self.source, self.plan = causal, source, plan
        if causal is not None and len(self.axes) != 1:
            raise XDError(f"causal in {len(self.axes)} dimensions", "causal in one dimension", "causal=None")
        self._architecture: tuple[tuple[str, nn.Parameter], ...] | None = None
        self._start = Start(p for _, p in self.architecture()) if source is not None else None
        self._plans: dict[Any, Plan] = {}
        self._merged: dict[Any, Callable[[Tensor], Tensor]] | None = None

    K: nn.ModuleList
    L: nn.ModuleList
    M: nn.ModuleList
    b: nn.Parameter | None
    C: nn.Parameter | None

    @classmethod
    def from_conv(cls, conv: nn.Module, input_size: int | Sequence[int], **options: Any) -> "XDOperation":
        """The XD-operation that is exactly this convolution at every position; see `warmstart.from_conv`."""
        from xdops.operations.warmstart import from_conv

        return from_conv(conv, input_size, **options)

    def _check(self, K: Sequence[KMatrix], L: Sequence[KMatrix], M: Sequence[KMatrix], b: Tensor | None, C: Tensor | None) -> None:
        dims = len(self.axes)
        if not 1 <= dims <= 3:
            raise XDError(f"{dims} dimensions", "1, 2 or 3", "one Axis per spatial dimension")
        for name, matrices in (("K", K), ("L", L), ("M", M)):
            if [m.n for m in matrices] != list(self.sizes):
                raise XDError(
                    f"{name} of sizes {[m.n for m in matrices]}",
                    f"{list(self.sizes)}, one per axis",
                    "dft(n, order='reversed')",
                )
        spatial = self.weight.dim() - 2 - int(self.complex_weight)
        if spatial != dims:
            raise XDError(
                f"filters of shape {tuple(self.weight.shape)}",
                f"{dims} spatial dimensions",
                "(c_out, c_in/groups, k...)",
            )
        if any(k > n for k, n in zip(self.kernel_size, self.sizes, strict=True)):
            raise XDError(
                f"filters of size {self.kernel_size}",
                f"at most {self.sizes}, the operation's size",
                "a larger operation",
            )
        if b is not None and tuple(b.shape) != (*self.sizes, 2):
            raise XDError(f"b of shape {tuple(b.shape)}", f"{(*self.sizes, 2)}: pairs over the grid", "torch.zeros(*sizes, 2)")
        gates = (self.out_channels, self.in_channels // self.groups, 2)
        if self.out_channels % self.groups or self.in_channels % self.groups:
            raise XDError(
                f"{self.in_channels} to {self.out_channels} channels in {self.groups} groups",
                "channels divisible by groups",
                "groups=1",
            )
        if C is not None and tuple(C.shape) != gates:
            raise XDError(f"C of shape {tuple(C.shape)}", f"{gates}: pairs over channel pairs", "torch.ones(...)")

    @property
    def sizes(self) -> tuple[int, ...]:
        """n per dimension."""
        return tuple(a.size for a in self.axes)

    @property
    def depth(self) -> tuple[int, int, int]:
        """Depths of K, L and M."""
        return self.matrix("K").depth, self.matrix("L").depth, self.matrix("M").depth

    @property
    def kernel_size(self) -> tuple[int, ...]:
        return tuple(self.weight.shape[2 : 2 + len(self.axes)])

    @property
    def in_channels(self) -> int:
        return self.weight.shape[0] if self.transposed_weight else self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        return self.weight.shape[1] * self.groups if self.transposed_weight else self.weight.shape[0]

    @property
    def filters(self) -> Tensor:
        """The weights as (c_out, c_in/groups, k...), complex if they are, and placed where L expects them."""
        w = self.unplaced_filters
        for i, columns in enumerate(self.weight_columns):
            w = w.new_zeros(*w.shape[: 2 + i], self.sizes[i], *w.shape[3 + i :]).index_copy(2 + i, columns, w)
        return w

    @property
    def unplaced_filters(self) -> Tensor:
        """The same with only the taps that there are, which stand for `weight_columns` of L if these are given."""
        w: Tensor = self.weight
        if self.transposed_weight:
            w = w.unflatten(0, (self.groups, -1)).transpose(1, 2).flatten(0, 1)
        return to_complex(w) if self.complex_weight else w

    @property
    def weight_columns(self) -> list[Tensor]:
        """Per dimension the columns of L that the taps meet; empty where these are the first ones."""
        return [getattr(self, f"weight_columns_{i}") for i in range(len(self.axes))] if self.places_weight else []

    def matrix(self, name: str) -> Kronecker:
        """K, L or M as it is now."""
        return Kronecker([m.matrix for m in getattr(self, name)])

    def forward(self, x: Tensor) -> Tensor:
        check_input(x, self.in_channels, self.axes)
        if self._merged is not None:
            return self._forward_merged(x)
        if x.dtype != self.weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise XDError(
                f"an input of dtype {x.dtype}", f"{self.weight.dtype}, the dtype of the filters", f"x.to({self.weight.dtype})"
            )
        return evaluate(self, x, self.plan_for(x), self.bias)

    def plan_for(self, x: Tensor) -> Plan:
        """How an input like x is evaluated: `print(op.plan_for(x))`."""
        if isinstance(self.plan, Plan):
            return self.plan
        grad = torch.is_grad_enabled()
        trained = tuple(grad and p.requires_grad for _, p in self.architecture())
        as_source = self.source is not None and not any(trained) and self.untouched
        key = (tuple(x.shape), x.dtype, x.device.type, self.plan, trained, grad and x.requires_grad, as_source, rates())
        if key not in self._plans:
            self._plans[key] = make_plan(problem(self, x, as_source), self.plan)
        return self._plans[key]

    @property
    def untouched(self) -> bool:
        """Whether the architecture still has, to the bit, the values of its warm start from a layer."""
        return self._start is not None and self._start.is_now(p for _, p in self.architecture())

    @contextmanager
    def by_architecture(self) -> Iterator[None]:
        """Within this context the operation is evaluated by its architecture, even while that is its source's."""
        source, self.source = self.source, None
        try:
            yield
        finally:
            self.source = source

    @property
    def merged(self) -> bool:
        return self._merged is not None

    @torch.no_grad()
    def merge(self) -> None:
        """Fix the operation for inference: what does not depend on the input is computed once per input shape and kept.

        The outputs are the same. Filters and architecture are not looked at again until `unmerge`.
        """
        self._merged = {}

    def unmerge(self) -> None:
        """Undo `merge`."""
        self._merged = None

    def _forward_merged(self, x: Tensor) -> Tensor:
        assert self._merged is not None
        if torch.is_grad_enabled() and (x.requires_grad or (self.training and self.weight.requires_grad)):
            raise XDError(
                "a merged operation while gradients are recorded",
                "torch.no_grad() or torch.inference_mode() around it",
                "with torch.no_grad(): model(x), or xdops.unmerge_(model) to train on",
            )
        key = (tuple(x.shape), x.dtype, x.device)
        with torch.no_grad():
            if key not in self._merged:
                self._merged[key] = prepare_merged(self, x)
            return self._merged[key](x)

    def __deepcopy__(self, memo: dict[int, Any]) -> "XDOperation":
        """Plans and merged tensors are made again by the copy."""
        twin = self.__class__.__new__(self.__class__)
        memo[id(self)] = twin
        for name, value in self.__dict__.items():
            if name in ("_plans", "_merged", "_architecture"):
                value = {} if isinstance(value, dict) else None
            else:
                value = copy.deepcopy(value, memo)
            object.__setattr__(twin, name, value)
        return twin

    def evaluate(self, x: Tensor, plan: str) -> Tensor:
        """The definition in complex arithmetic, with its K-matrices multiplied as `plan` says, "dense" or "staged": the oracle."""
        if self.causal is not None:
            return causal_definition(self, x, plan)
        return xd_operation(
            x, self.filters, self.matrix("K"), self.matrix("L"), self.matrix("M"), self.axes,
            b=self.b, C=self.C, bias=self.bias, groups=self.groups, padding_mode=self.padding_mode, plan=plan,
        )  # fmt: skip

    def architecture(self) -> tuple[tuple[str, nn.Parameter], ...]:
        """Every architecture parameter that is present, trained or fixed, with its name."""
        if self._architecture is None:  # walking the modules takes as long as a small convolution
            self._architecture = tuple((n, p) for n, p in self.named_parameters() if n.split(".")[0] in ARCHITECTURE)
        return self._architecture

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "XDOperation":
        """Parameters may be replaced when they move to another device or dtype."""
        self._architecture, self._plans = None, {}
        return super()._apply(fn, recurse)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ARCHITECTURE and "_architecture" in self.__dict__:
            self._architecture = None
        super().__setattr__(name, value)

    def arch_parameters(self) -> list[nn.Parameter]:
        """The architecture parameters that learn."""
        return [p for name, p in self.architecture() if name.split(".")[0] in self.trained]

    def weight_parameters(self) -> list[nn.Parameter]:
        """Filters and output bias."""
        arch = {id(p) for _, p in self.architecture()}
        return [p for p in self.parameters() if id(p) not in arch]

    def freeze(self, *names: str) -> "XDOperation":
        """Fix architecture parameters by name (all of them without names)."""
        return self._train(names, False)

    def unfreeze(self, *names: str) -> "XDOperation":
        """Let architecture parameters learn, by name (all of them without names)."""
        return self._train(names, True)

    def _train(self, names: Sequence[str], trained: bool) -> "XDOperation":
        unknown = set(names) - set(ARCHITECTURE)
        if unknown:
            raise XDError(
                f"architecture parameters {sorted(unknown)}",
                f"some of {', '.join(ARCHITECTURE)}",
                "op.freeze('K', 'b')",
            )
        chosen = set(names or ARCHITECTURE)
        for name, parameter in self.architecture():
            if name.split(".")[0] in chosen:
                parameter.requires_grad_(trained)
        present = {name.split(".")[0] for name, _ in self.architecture()} & chosen
        self.trained = self.trained | present if trained else self.trained - present
        return self

    def copy(self) -> "XDOperation":
        return copy.deepcopy(self)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels} -> {self.out_channels}, size={self.sizes}, kernel={self.kernel_size}, depth={self.depth}, "
            f"groups={self.groups}, trained={''.join(n for n in ARCHITECTURE if n in self.trained) or 'nothing'}"
        )
