"""The XD-operation as a layer: its architecture a = (K, L, M, b, C), its weights w, and where inputs and outputs sit."""

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from xdops.arguments import checked
from xdops.engine.description import Description
from xdops.engine.evaluate import evaluate, plan_of
from xdops.engine.evaluation import Evaluation, Operands
from xdops.engine.operator import evaluate_traced
from xdops.engine.plan import Plan
from xdops.engine.planner import check_plan
from xdops.engine.tracing import is_traced
from xdops.engine.workload import Workload
from xdops.errors import XDError
from xdops.matrices import KMatrix
from xdops.matrices.learnable import read
from xdops.matrices.pairs import to_complex
from xdops.operations.architecture import ARCHITECTURE, BaseOperation
from xdops.operations.axes import Axis
from xdops.operations.causal import causal_definition
from xdops.operations.definition import check_dense, check_device, check_dtype, check_input, check_shape, xd_operation
from xdops.operations.graph_nodes import as_node
from xdops.operations.merged import merged
from xdops.operations.source import Source

#: Files of earlier versions hold the columns as buffers of this name; they say nothing that the operation does not know.
OLD_COLUMNS = "weight_columns_"


class XDOperation(BaseOperation):
    """Re((K_1 (x) ... (x) K_N) diag(C (L w + b)) (M_1 (x) ... (x) M_N) x) + bias, in 1, 2 or 3 dimensions.

    K, L, M: one K-matrix per dimension, (n, p), (p, n) and (p, n) for p points of the domain: n, or n/2 in the last dimension.
    b: (p..., 2) or None for absent. C: (c_out, c_in/groups, 2) or None. `trained` names the architecture parameters that learn;
    the others are fixed. weight: (c_out, c_in/groups, k...), with a trailing 2 if complex; with
    `transposed_weight` its first two dimensions are laid out as in a transposed convolution, (c_in, c_out/groups, k...).
    causal: in one dimension, output t never depends on an input after t + causal, whatever the architecture becomes. `plan` is
    the way to evaluate, "auto" or the name of a form (see `engine.forms`); `source` is the layer that the warm start was made from.

    What it computes follows from its parameters and these settings alone. Code that reads a convolution's attributes finds them.
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
        weight_columns: Sequence[Tensor] = (),
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
        first, second = weight.shape[0], weight.shape[1] * groups
        self.in_channels, self.out_channels = (first, second) if transposed_weight else (second, first)
        self.kernel_size = tuple(weight.shape[2 : 2 + len(self.axes)])
        dims = len(self.axes)
        self.stride, self.dilation = tuple(a.stride for a in self.axes), (1,) * dims
        self.padding: tuple[int, ...] | str = (0,) * dims
        self.output_padding, self.transposed = (0,) * dims, False
        self._check(K, L, M, b, C)
        # Numbers, not buffers: moving averages of a network's buffers would round them down.
        self.columns = tuple(tuple(int(c) for c in columns) for columns in weight_columns)
        check_plan(plan)
        self.causal, self.plan = causal, plan
        if causal is not None and dims != 1:
            raise XDError(f"causal in {dims} dimensions", "causal in one dimension", "causal=None")
        self._register(K, L, M, b, C, trained, source)

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
        domain = tuple(m.shape[0] for m in M)
        if tuple(m.shape[0] for m in L) != domain or tuple(m.shape[1] for m in K) != domain:
            raise XDError(
                f"K, L and M of shapes {[m.shape for m in (*K, *L, *M)]}",
                f"one domain: as many rows of L and columns of K as M has rows, {domain}",
                "all of them whole, or all of them half",
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
        if b is not None and tuple(b.shape) != (*domain, 2):
            raise XDError(f"b of shape {tuple(b.shape)}", f"{(*domain, 2)}: pairs over the domain", "torch.zeros(*domain, 2)")
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
    def domain(self) -> tuple[int, ...]:
        """Points per dimension of the domain in which the operation multiplies: n, or n/2 in the last dimension."""
        return tuple(m.shape[0] for m in self.matrix("M").matrices)

    @property
    def filters(self) -> Tensor:
        """The weights as (c_out, c_in/groups, k...), complex if they are, and placed where L expects them."""
        w: Tensor = self.weight
        if self.transposed_weight:
            w = w.unflatten(0, (self.groups, -1)).transpose(1, 2).flatten(0, 1)
        w = to_complex(w) if self.complex_weight else w
        for i, columns in enumerate(self.weight_columns):
            w = w.new_zeros(*w.shape[: 2 + i], self.sizes[i], *w.shape[3 + i :]).index_copy(2 + i, columns, w)
        return w

    @property
    def weight_columns(self) -> list[Tensor]:
        """Per dimension the columns of L that the taps meet; empty where these are the first ones."""
        if not self.columns:
            return []
        device = self._learnable("L")[0].tensors()[0].device
        return [torch.tensor(columns, device=device) for columns in self.columns]

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = (self.in_channels, self.out_channels) if self.transposed_weight else (self.out_channels, self.in_channels)
        return (first, second // self.groups, *self.kernel_size, *([2] if self.complex_weight else []))

    def description(self, axes: tuple[Axis, ...] | None = None) -> Description:
        """What the engine has to know beside the tensors; with other axes, if fewer outputs are wanted."""
        K, L, M = [tuple([m.layout for m in self._learnable(name)]) for name in "KLM"]
        return Description(
            lines=self.axes if axes is None else axes,
            K=K,
            L=L,
            M=M,
            groups=self.groups,
            padding_mode=self.padding_mode,
            transposed_weight=self.transposed_weight,
            complex_weight=self.complex_weight,
            causal=self.causal,
            plan=self.plan,
        )

    def operands(self, weight: Tensor | None = None) -> Operands:
        """The tensors as they are now, whoever put them there; the weight may be given, where it has been looked up already."""
        w: Tensor = self.weight if weight is None else weight
        return Operands(w, read(self, "b"), read(self, "C"), self._values(), self.weight_columns)

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return as_node(self, input)
        return self._outputs(input, self.axes)

    def last(self, input: Tensor) -> Tensor:
        """forward(input)[..., m - 1 : m] for inputs of m steps in one dimension, without the outputs before it."""
        if len(self.axes) != 1:
            raise XDError(f"the last output of an operation in {len(self.axes)} dimensions", "one dimension", "op(x)[..., -1]")
        (axis,), m = self.axes, input.shape[-1]
        if (axis.step, axis.stride) != (1, 1) or axis.out(m) < m or self._is_source():
            return self.forward(input)[..., m - 1 : m]
        ends = dataclasses.replace(axis, stride=max(1, m - 1), growth=0)  # rows start at 0: the first output, and this one
        return self._outputs(input, (ends,))[..., -1:]

    def _outputs(self, input: Tensor, axes: tuple[Axis, ...]) -> Tensor:
        check_dense(input)
        traced = is_traced(input)
        if traced:
            check_input(input, self.in_channels, axes, self.padding_mode)
        else:
            check_shape(tuple(input.shape), input.dtype, self.in_channels, axes, self.padding_mode)
        weight, bias = read(self, "weight"), read(self, "bias")  # once: they may be computed
        self._check_tensors(weight, bias)
        check_device(input, weight)
        check_dtype(input, weight.dtype)
        if not traced and self.plan in ("auto", "source") and self._is_source():
            return self._layer(input, weight, bias)
        device = input.device.type
        autocast = device != "meta" and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else input.dtype
        y = (evaluate_traced if traced else evaluate)(self.description(axes), self.operands(weight), input, dtype)
        if bias is None:
            return y
        bias = bias.to(dtype).reshape(-1, *(1 for _ in self.axes))
        return y + bias if traced or y._is_view() else y.add_(bias)  # in place: nobody else holds y

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        assert self.source is not None
        y = self.source(x, weight, bias)
        if self.causal is not None and y.shape[2] != (outputs := self.axes[0].out(x.shape[2])):
            y = y[:, :, :outputs]
        return y

    def workload(self, x: Tensor, source: bool = False) -> Workload:
        """What a plan for an input like x depends on."""
        return Evaluation(self.description(), self.operands(), x, x.dtype).workload(source)

    @checked
    def plan_for(self, x: Tensor) -> Plan:
        """How an input like x is evaluated: `print(op.plan_for(x))`."""
        check_shape(tuple(x.shape), x.dtype, self.in_channels, self.axes, self.padding_mode)
        return plan_of(Evaluation(self.description(), self.operands(), x, x.dtype), source=self._is_source())

    @checked
    def merged(self, input_size: int | Sequence[int] | None = None) -> nn.Module:
        """A plain module that computes the same, with everything fixed that does not depend on the input.

        It is the convolution itself while the architecture is its warm start's; for a given `input_size`, where that is smaller
        and no slower, one dense matrix, which refuses other sizes; otherwise fixed matrices and filters, for all sizes that the
        operation takes. Only buffers and ordinary real tensor code: it pickles, copies, autocasts, compiles and exports like any
        module. This operation stays as it is, and what it learns later does not reach the module.
        """
        size = (input_size,) * len(self.axes) if isinstance(input_size, int) else input_size
        with self.settled(), torch.inference_mode(False):  # what is made now may meet autograd later
            self._check_tensors(self.weight, self.bias)
            return self._looking_like_this(merged(self, size))

    @checked
    def evaluate(self, x: Tensor, plan: str) -> Tensor:
        """The definition in complex arithmetic, with its K-matrices multiplied as `plan` says, "dense" or "staged": the oracle."""
        if self.causal is not None:
            return causal_definition(self, x, plan)
        return xd_operation(
            x, self.filters, self.matrix("K"), self.matrix("L"), self.matrix("M"), self.axes,
            b=self.b, C=self.C, bias=self.bias, groups=self.groups, padding_mode=self.padding_mode, plan=plan,
        )  # fmt: skip

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for key in [key for key in state_dict if key.startswith(f"{prefix}{OLD_COLUMNS}")]:
            del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def copy(self) -> "XDOperation":
        return copy.deepcopy(self)

    def extra_repr(self) -> str:
        domain = "" if self.domain == self.sizes else f", domain={self.domain}"
        return (
            f"{self.in_channels} -> {self.out_channels}, size={self.sizes}{domain}, kernel={self.kernel_size}, depth={self.depth}, "
            f"groups={self.groups}, {self._said_of_training()}"
        )
