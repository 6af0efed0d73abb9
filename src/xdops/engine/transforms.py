"""Multiplying along one dimension in real-pair arithmetic, so that grid points come to lead and nothing is copied on the way.

A planar tensor (2, ...) holds real and imaginary parts one after the other. `enter` contracts the last dimension and leaves its
result in front: (q, m) real or (2, q, m) -> (2, n, q). `leave` is the way back: (2, n, q) -> (q, r) real or (2, q, r). Applied
dimension by dimension, they take (batch, c, m...) to (2, n..., batch, c), where channels mix as one batched product, and back.
A real input or output costs half. The gradient of `enter` with A is `leave` with A^H.

Here the matrix is dense, (2, rows, columns); `chains.Chain` does the same with grouped factors.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from xdops.engine.planar import adjoint, rotate
from xdops.engine.workspace import Workspace

#: Fewer columns than this are written as rows and turned around.
FEW_COLUMNS = 16


class Transform(Protocol):
    """A matrix along one dimension; `grads` collects the gradients of its tensors, None where nobody wants them."""

    rows: int
    columns: int
    grads: list[Tensor | None]

    def enter(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """x (q, m) or (2, q, m) -> (2, n, q), into out if it is given."""

    def leave(self, y: Tensor, out: Tensor) -> Tensor:
        """y (2, n, q) -> out (q, r), the real part, or out (2, q, r)."""

    def prepare(self, x: Tensor) -> None:
        """What `enter_backward` needs of `enter`, where that did not run just before: nothing, unless a transform says so."""
        return

    def forget(self) -> None:
        """There will be no `enter_backward`."""
        return

    def enter_backward(self, g: Tensor, x: Tensor, out: Tensor | None) -> None:
        """From g (2, n, q) and what `enter` saw: collects gradients, then writes x's into out, which may be x itself."""

    def leave_backward(self, g: Tensor, y: Tensor | None, out: Tensor | None = None) -> Tensor:
        """From g (q, r) or (2, q, r) and what `leave` saw: collects gradients, writes y's (2, n, q) into out, which may be y."""


class Dense(Transform):
    """A (2, n, m) entering, or (2, r, n) leaving."""

    def __init__(self, A: Tensor, space: Workspace, wants_grad: bool = False) -> None:
        self.A, self.rows, self.columns, self.space = A, A.shape[1], A.shape[2], space
        self.grads: list[Tensor | None] = [torch.zeros_like(A) if wants_grad else None]

    def enter(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        n, m = self.rows, self.columns
        out = self.space.empty((2 * n, x.shape[-2]), x) if out is None else out.view(2 * n, -1)
        torch.mm(self.A.reshape(2 * n, m), (x if x.dim() == 2 else x[0]).t(), out=out)
        if x.dim() == 3:
            out.addmm_(rotate(self.A).view(2 * n, m), x[1].t())
        return out.view(2, n, -1)

    def leave(self, y: Tensor, out: Tensor) -> Tensor:
        flat = y.reshape(-1, y.shape[-1])
        real = torch.cat((self.A[0], -self.A[1]), dim=1)  # (r, 2n): Re(A y) from stacked parts of y
        if out.dim() == 2:
            self._transposed_product(real, flat, out)
        else:
            self._transposed_product(real, flat, out[0])
            self._transposed_product(torch.cat((self.A[1], self.A[0]), dim=1), flat, out[1])
        return out

    def enter_backward(self, g: Tensor, x: Tensor, out: Tensor | None) -> None:
        if (grad := self.grads[0]) is not None:
            flat = g.reshape(-1, g.shape[-1])
            if x.dim() == 2:
                grad.view(flat.shape[0], -1).addmm_(flat, x)
            else:  # g x^H
                grad.view(flat.shape[0], -1).addmm_(flat, x[0])
                crossed = (flat @ x[1]).view_as(grad)
                grad[0] += crossed[1]
                grad[1] -= crossed[0]
        if out is not None:
            Dense(adjoint(self.A), self.space).leave(g, out)

    def leave_backward(self, g: Tensor, y: Tensor | None, out: Tensor | None = None) -> Tensor:
        if (grad := self.grads[0]) is not None and y is not None:
            n = self.columns
            flat = y.reshape(2 * n, -1).t()
            if g.dim() == 2:
                real = g.t() @ flat  # (r, 2n)
                grad[0] += real[:, :n]
                grad[1] -= real[:, n:]
            else:
                real, imaginary = g[0].t() @ flat, g[1].t() @ flat
                grad[0] += real[:, :n] + imaginary[:, n:]
                grad[1] += imaginary[:, :n] - real[:, n:]
        return Dense(adjoint(self.A), self.space).enter(g, out)

    def _transposed_product(self, A: Tensor, y: Tensor, out: Tensor) -> None:
        """(A y)^T into out. BLAS is slow at writing few columns, so few are written as rows and turned around."""
        if A.shape[0] < FEW_COLUMNS:
            rows = self.space.empty((A.shape[0], y.shape[1]), y)
            out.copy_(torch.mm(A, y, out=rows).t())
        else:
            torch.mm(y.t(), A.t().contiguous(), out=out)


def enter(x: Tensor, transforms: Sequence[Transform], out: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """x (lead..., m_1..m_N) -> (2, n_1, rest) = (2, n_1..n_N, lead...) flattened, and what every transform saw.

    x comes as (q, m_N) if it is real, as (2, q, m_N) if it is complex.
    """
    seen: list[Tensor] = [x]
    for i in range(len(transforms) - 1, -1, -1):
        t = transforms[i].enter(seen[0], out if i == 0 else None)
        if i > 0:
            seen.insert(0, t.view(2, -1, transforms[i - 1].columns))
    return t, seen


def enter_only(x: Tensor, transforms: Sequence[Transform], out: Tensor | None = None) -> Tensor:
    """The same, with nothing remembered for a backward pass."""
    for i in range(len(transforms) - 1, -1, -1):
        t = transforms[i].enter(x, out if i == 0 else None)
        transforms[i].forget()
        x = t if i == 0 else t.view(2, -1, transforms[i - 1].columns)
    return t


def enter_seen(x: Tensor, transforms: Sequence[Transform]) -> list[Tensor]:
    """What every transform of `enter` sees, without the last result."""
    seen: list[Tensor] = [x]
    for i in range(len(transforms) - 2, -1, -1):
        t = transforms[i + 1].enter(seen[0])
        seen.insert(0, t.view(2, -1, transforms[i].columns))
    transforms[0].prepare(seen[0])
    return seen


def leave_seen(y: Tensor, transforms: Sequence[Transform], space: Workspace) -> list[Tensor]:
    """What every transform of `leave` sees, for y (2, n_1..n_N, lead...)."""
    seen = [y.reshape(2, transforms[0].columns, -1)]
    for before, after in pairwise(transforms):
        out = space.empty((2, seen[-1].shape[2], before.rows), y)
        seen.append(before.leave(seen[-1], out).view(2, after.columns, -1))
    return seen


def leave(y: Tensor, transforms: Sequence[Transform], out: Tensor, space: Workspace) -> None:
    """y (2, n_1..n_N, lead...) -> (lead..., r_1..r_N) real, into out."""
    y = y.reshape(2, transforms[0].columns, -1)
    for before, after in pairwise(transforms):
        between = space.empty((2, y.shape[2], before.rows), y)
        y = before.leave(y, between).view(2, after.columns, -1)
    transforms[-1].leave(y, out.view(-1, out.shape[-1]))


def enter_backward(g: Tensor, seen: Sequence[Tensor], transforms: Sequence[Transform], out: Tensor | None) -> None:
    """From g (2, n_1, rest) and what was seen: collects the transforms' gradients and writes x's, shaped as x came, into out.

    What was seen between the transforms is overwritten by its gradient.
    """
    for i, transform in enumerate(transforms):
        g = g.reshape(2, transform.rows, -1)
        last = i == len(transforms) - 1
        into = out if last else seen[i]
        transform.enter_backward(g, seen[i], into)
        if into is not None:
            g = into


def leave_backward(g: Tensor, seen: Sequence[Tensor] | None, transforms: Sequence[Transform], out: Tensor | None = None) -> Tensor:
    """From g (lead..., r_1..r_N) and what was seen, None if no gradients are to be collected: returns y's as (2, n_1, rest).

    What was seen between the transforms is overwritten by its gradient, and y itself if it is given as out.
    """
    g = g.reshape(-1, transforms[-1].rows)
    for i in range(len(transforms) - 1, -1, -1):
        if i < len(transforms) - 1:
            g = g.view(2, -1, transforms[i].rows)
        y = None if seen is None else seen[i]
        g = transforms[i].leave_backward(g, y, out if i == 0 else y)
    return g
