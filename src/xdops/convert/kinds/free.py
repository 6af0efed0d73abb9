"""Layers without parameters as XD-operations: with filters that do nothing while L = 0 and that may learn to."""

from collections.abc import Sequence

import torch
from torch import nn

from xdops.convert.kinds.kind import Recipe
from xdops.matrices.pairs import to_pairs
from xdops.operations import XDOperation
from xdops.operations.axes import Axis
from xdops.operations.warmstart import deepen_input, deepen_output, learned, resolve_depth


def filter_sizes(recipe: Recipe) -> tuple[int, ...]:
    """As large as the config says, and never larger than the input."""
    return tuple(min(recipe.config.kernel_size or 1, m) for m in recipe.input_size)


def with_filters(op: XDOperation, axes: Sequence[Axis], offset: int, recipe: Recipe) -> XDOperation:
    """`op` with other axes, channels and depth: C carries input channel i to output channel i + offset."""
    c_in, c_out = recipe.channels
    config = recipe.config
    K_depth, L_depth, M_depth = resolve_depth(config.depth, False)
    weight = torch.empty(c_out, c_in, *op.kernel_size, dtype=op.weight.dtype)
    nn.init.kaiming_uniform_(weight, a=5**0.5)  # as torch's convolutions start
    C = torch.zeros(c_out, c_in, dtype=weight.dtype)
    C[torch.arange(c_in) + offset, torch.arange(c_in)] = 1
    return XDOperation(
        axes,
        weight,
        [deepen_output(m, K_depth) for m in op.matrix("K").matrices],
        [deepen_input(m, L_depth) for m in op.matrix("L").matrices],
        [deepen_input(m, M_depth) for m in op.matrix("M").matrices],
        b=op.b,
        C=to_pairs(C),
        trained=learned(config.trained, config.b, config.C),
    )
