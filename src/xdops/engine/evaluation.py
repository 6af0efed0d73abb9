"""Everything that one evaluation needs: K-matrices, filters, b, C, and where the input meets them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine.description import Description
from xdops.engine.geometry import Geometry, Line, Part, geometry, pad, place
from xdops.engine.planar import from_pairs
from xdops.engine.workload import Workload
from xdops.engine.wrapping import wrap
from xdops.matrices import KMatrix
from xdops.matrices.learnable import assemble


@dataclass(frozen=True)
class Operands:
    """The tensors of an operation, as they are stored."""

    weight: Tensor  # filters, laid out as the description says
    b: Tensor | None  # (domain..., 2)
    C: Tensor | None  # (c_out, c_in/groups, 2)
    values: list[Tensor]  # of all butterflies: those of K, dimension by dimension, then of L, then of M
    columns: list[Tensor]  # per dimension the columns of L that the taps meet; empty where these are the first ones

    @property
    def architecture(self) -> list[Tensor]:
        """All but the filters."""
        return [t for t in (*self.values, self.b, self.C) if t is not None]


class Evaluation:
    """One input x (batch, c_in, m...) and what meets it; `dtype` is that of the arithmetic."""

    def __init__(self, description: Description, operands: Operands, x: Tensor, dtype: torch.dtype) -> None:
        self.description, self.operands, self.x, self.dtype = description, operands, x, dtype
        self.dims, self.groups, self.causal = len(description.lines), description.groups, description.causal
        self.c_in, self.c_out = description.channels(operands.weight.shape)
        self.K, self.L, self.M = _matrices(description, operands.values)
        self.where: Geometry = geometry(description.lines, tuple(x.shape[2:]))
        taps = operands.weight.shape[2 : 2 + self.dims]
        self.kernel = tuple(A.shape[1] for A in self.L) if operands.columns else tuple(taps)

    def part(self, name: str, i: int) -> Part:
        """The rows and columns of K, L or M in dimension i that are in use."""
        if name == "K":
            return Part(self.where.rows[i], range(self.K[i].shape[1]))
        if name == "L":
            return Part(range(self.L[i].shape[0]), range(self.kernel[i]))
        return Part(range(self.M[i].shape[0]), self.where.columns[i])

    @property
    def taps(self) -> Tensor:
        """The filters as (c_out, c_in/groups, k...), planar if complex; where taps are placed, their columns of L are `columns`."""
        w = self.operands.weight
        if self.description.transposed_weight:
            w = w.unflatten(0, (self.groups, -1)).transpose(1, 2).flatten(0, 1)
        return (from_pairs(w) if self.description.complex_weight else w).to(self.dtype)

    @property
    def filters(self) -> Tensor:
        """The same with every tap in its place: as many as L has columns, where they are placed."""
        w, lead = self.taps, 3 if self.description.complex_weight else 2
        for i, columns in enumerate(self.operands.columns):
            w = w.new_zeros(*w.shape[: lead + i], self.kernel[i], *w.shape[lead + 1 + i :]).index_copy(lead + i, columns, w)
        return w

    @property
    def b(self) -> Tensor | None:
        """Planar (2, domain...)."""
        b = self.operands.b
        return None if b is None else from_pairs(b.to(self.dtype))

    @property
    def C(self) -> Tensor | None:
        """Planar (2, g, c_out/g, c_in/g)."""
        C = self.operands.C
        return None if C is None else C.to(self.dtype).movedim(-1, 0).unflatten(1, (self.groups, -1)).contiguous()

    @property
    def input(self) -> Tensor:
        """x as the matrices meet it: padded, and placed where it has to be."""
        lengths, lines, mode = self.x.shape[2:], self.description.lines, self.description.padding_mode
        x = self.x.to(self.dtype)
        x = wrap(x, lines) if mode == "circular" else pad(x, lines, mode)
        return place(x, lines, lengths) if self.where.placed else x

    def workload(self, source: bool = False) -> Workload:
        """What planning needs to know; `source`: the layer that the operation started as may stand in."""
        o, x, grad = self.operands, self.x, torch.is_grad_enabled()
        return Workload(
            sizes=tuple(line.size for line in self.description.lines),
            domain=tuple(A.shape[0] for A in self.M),
            inputs=tuple(map(len, self.where.columns)),
            outputs=tuple(map(len, self.where.rows)),
            kernel=tuple(o.weight.shape[2 : 2 + self.dims]) if self.description.complex_weight else self.kernel,
            batch=x.shape[0],
            c_in=self.c_in,
            c_out=self.c_out,
            groups=self.groups,
            depth=(max(A.depth for A in self.K), max(A.depth for A in self.L), max(A.depth for A in self.M)),
            radices=tuple(_common_radices(*row) for row in zip(self.description.lines, self.K, self.M, strict=True)),
            meets_in_the_middle=all(
                K.butterflies[0].increasing and not M.butterflies[0].increasing for K, M in zip(self.K, self.M, strict=True)
            ),
            has_b=o.b is not None,
            has_C=o.C is not None,
            complex_weight=self.description.complex_weight,
            causal=self.causal is not None,
            source=source,
            train_arch=grad and any(v.requires_grad for v in o.values),
            train=grad and any(t is not None and t.requires_grad for t in (x, o.weight, o.b, o.C, *o.values)),
            dtype=x.dtype,
            device=x.device.type,
        )


def _matrices(description: Description, values: Sequence[Tensor]) -> tuple[list[KMatrix], list[KMatrix], list[KMatrix]]:
    found, position = [], 0
    for layouts in (description.K, description.L, description.M):
        row = []
        for layout in layouts:
            row.append(assemble(layout, values[position : position + len(layout)]))
            position += len(layout)
        found.append(row)
    return found[0], found[1], found[2]


def _common_radices(line: Line, K: KMatrix, M: KMatrix) -> tuple[int, ...] | None:
    """The radices that all butterflies of K and M share in one dimension; spaced inputs are not grouped."""
    layouts = {b.radices for A in (K, M) for b in A.butterflies}
    return layouts.pop() if len(layouts) == 1 and line.step == 1 else None
