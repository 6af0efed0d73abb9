"""The definition of a causal operation: every tap's matrix A_j = Re(K diag(L e_j) M), masked to the past, applied as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xdops.engine.forms.taps import causal_mask
from xdops.engine.geometry import pad
from xdops.matrices.pairs import to_complex
from xdops.operations.definition import check_input

if TYPE_CHECKING:
    from xdops.operations.operation import XDOperation


def causal_definition(op: XDOperation, x: Tensor, plan: str) -> Tensor:
    """y[o] = sum_{i, j} Re(C[o, i] (w[o, i, j] + b's share)) masked: one tap at a time, in complex arithmetic."""
    assert op.causal is not None
    check_input(x, op.in_channels, op.axes, op.padding_mode)
    rows = op.axes[0].rows(x.shape[2])
    x = pad(x, op.axes, op.padding_mode)
    K, L, M = (op.matrix(name).matrices[0] for name in "KLM")
    eye = torch.eye(K.shape[0], dtype=x.dtype, device=x.device)
    into = M.apply(eye[: x.shape[2]], plan=plan)  # row s: M e_s
    filters = op.filters
    spectra = L.apply(eye[: filters.shape[2]], plan=plan)  # row j: L e_j
    if op.b is not None:
        spectra = torch.cat((spectra, to_complex(op.b)[None]))
        filters = torch.cat((filters, torch.ones_like(filters[..., :1])), dim=2)
    gates = torch.ones_like(filters[..., 0]) if op.C is None else to_complex(op.C)
    y: Tensor | None = None
    for j, spectrum in enumerate(spectra):
        A = K.apply(into * spectrum, rows=rows, plan=plan).mT * causal_mask(rows, range(x.shape[2]), op.causal, x)  # (r, m)
        w = (gates * filters[..., j]).to(A.dtype).unflatten(0, (op.groups, -1))  # (g, c_out/g, c_in/g)
        z = (x.to(A.dtype) @ A.mT).unflatten(1, (op.groups, -1))  # (batch, g, c_in/g, r)
        term = torch.einsum("goi,bgir->bgor", w, z).flatten(1, 2).real
        y = term if y is None else y + term
    assert y is not None
    y = y if op.bias is None else y + op.bias.to(y.dtype)[:, None]
    return y.to(x.dtype)
