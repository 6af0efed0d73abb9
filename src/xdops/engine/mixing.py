"""Channel mixing at every grid point, y^[p] = (C (L w + b))[p] x^[p], with the filters transformed chunk by chunk.

The transformed filters, c_out x c_in numbers at every grid point, are the largest tensor of an XD-operation. They are made for some
grid points at a time, used, and dropped; the backward pass makes them again, which costs one small product.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine.planar import product, rotate
from xdops.engine.workspace import Workspace

#: Numbers in one chunk of transformed filters: small enough to stay in a cache, large enough to keep the cores busy.
CHUNK = 1 << 20

#: Up to this many numbers, the transformed filters are made once and the batch goes through them in parts.
WHOLE = 1 << 22


@dataclass
class Filters:
    """The filters on their way into the domain: all dimensions but the first are transformed already, taps of the first lead.

    Channel groups count as grid points: g groups of c_out/g x c_in/g filters at every point.
    """

    L: Tensor  # (2, n_1, k_1): the first dimension's matrix
    partial: Tensor  # (k_1, c_out c_in/g) real for one dimension, else (2, k_1, n_2..n_N c_out c_in/g)
    b: Tensor | None  # (2, n_1, n_2..n_N)
    C: Tensor | None  # (2, g, c_out/g, c_in/g)
    groups: int
    c_out: int  # per group
    c_in: int  # per group
    space: Workspace

    def __post_init__(self) -> None:
        self.real = self.partial.dim() == 2
        self.rest = self.partial.shape[-1] // (self.c_out * self.c_in)  # points and groups per index of the first dimension
        self.n = n = self.L.shape[1]
        few = 2 * n * self.rest * self.c_out * self.c_in <= WHOLE
        self.step = n if few else max(1, min(n, CHUNK // (2 * self.rest * self.c_out * self.c_in)))
        self.whole = self.gated(self.ungated(slice(0, n))) if few else None

    def mix(self, x_hat: Tensor, y_hat: Tensor) -> None:
        """x_hat (2, n_1, rest, batch, c_in/g) into y_hat (2, n_1, rest, batch, c_out/g)."""
        for part in self.chunks():
            mix(x_hat[:, part].flatten(1, 2), self.at(part), y_hat[:, part].flatten(1, 2), self.space)

    def chunks(self) -> list[slice]:
        """Parts of the first dimension; one, if the transformed filters are few."""
        return [slice(s, min(self.n, s + self.step)) for s in range(0, self.n, self.step)]

    def at(self, part: slice) -> Tensor:
        """The transformed filters C (L w + b) at some grid points, as (2, points g, c_out/g, c_in/g)."""
        return self.gated(self.ungated(part)) if self.whole is None else self.whole

    def ungated(self, part: slice) -> Tensor:
        """L w + b at some grid points: (2, points, g, c_out/g, c_in/g)."""
        L = self.L[:, part]
        flat = L.reshape(-1, L.shape[2])
        u = self.space.empty((flat.shape[0], self.partial.shape[-1]), flat)
        torch.mm(flat, self.partial if self.real else self.partial[0], out=u)
        if not self.real:
            u.addmm_(rotate(L).flatten(0, 1), self.partial[1])
        u = u.view(2, -1, self.groups, self.c_out, self.c_in)
        return u if self.b is None else u.add_(self.b[:, part].reshape(2, -1, 1, 1, 1))

    def gated(self, u: Tensor) -> Tensor:
        """C u as (2, points g, c_out/g, c_in/g)."""
        return (u if self.C is None else product(u, self.C[:, None])).flatten(1, 2)


def mix(x: Tensor, w: Tensor, y: Tensor, space: Workspace) -> None:
    """y[p] = x[p] w[p]^T: x (2, p, batch, c_in), w (2, p, c_out, c_in), into y (2, p, batch, c_out)."""
    w = w.mT
    _two_products(x[0], w[0], x[1], w[1], -1, y[0], space)
    _two_products(x[0], w[1], x[1], w[0], 1, y[1], space)


def mix_input_gradient(g: Tensor, w: Tensor, grad_x: Tensor, space: Workspace) -> None:
    """conj(w)^T g into grad_x (2, p, batch, c_in)."""
    _two_products(g[0], w[0], g[1], w[1], 1, grad_x[0], space)
    _two_products(g[1], w[0], g[0], w[1], -1, grad_x[1], space)


def mix_filter_gradient(g: Tensor, x: Tensor, grad_w: Tensor, space: Workspace, beta: int = 0) -> None:
    """g conj(x)^T summed over the batch, into (beta 0) or onto (beta 1) grad_w (2, p, c_out, c_in)."""
    gr, gi = g[0].mT, g[1].mT
    _two_products(gr, x[0], gi, x[1], 1, grad_w[0], space, beta)
    _two_products(gi, x[0], gr, x[1], -1, grad_w[1], space, beta)


def _two_products(a: Tensor, b: Tensor, c: Tensor, d: Tensor, sign: int, out: Tensor, space: Workspace, beta: int = 0) -> None:
    """out = beta out + a b + sign c d, batched. BLAS is slow at writing few columns: then the transpose is computed and turned."""
    rows, columns = out.shape[1:]
    if columns >= 16 or rows <= columns:
        out.baddbmm_(a, b, beta=beta).baddbmm_(c, d, alpha=sign)
        return
    turned = space.empty((out.shape[0], columns, rows), out)
    torch.bmm(b.mT, a.mT, out=turned).baddbmm_(d.mT, c.mT, alpha=sign)
    if beta:
        out += turned.mT
    else:
        out.copy_(turned.mT)


class FilterGradients:
    """Collects the gradients of everything that makes the transformed filters, chunk of grid points by chunk."""

    def __init__(self, filters: Filters, need_partial: bool, need_L: bool, need_b: bool, need_C: bool) -> None:
        self.filters, self.space = filters, filters.space
        self.partial = torch.zeros_like(filters.partial) if need_partial else None
        self.L = torch.zeros_like(filters.L) if need_L else None
        self.b = torch.zeros_like(filters.b) if filters.b is not None and need_b else None
        self.C = torch.zeros_like(filters.C) if filters.C is not None and need_C else None
        self.wanted = need_partial or need_L or need_b or need_C
        self.whole: Tensor | None = None  # summed over the parts of the batch, where the filters are kept whole

    def collect(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> None:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat."""
        for part in self.filters.chunks():
            g, x = g_hat[:, part].flatten(1, 2), x_hat[:, part].flatten(1, 2)
            v = self.filters.at(part)
            if self.wanted:
                self.add(g, x, part)
            mix_input_gradient(g, v, grad_x_hat[:, part].flatten(1, 2), self.space)

    def add(self, g: Tensor, x: Tensor, part: slice) -> None:
        """g (2, p, batch, c_out) the gradient of the mixed channels x (2, p, batch, c_in) at some grid points."""
        if self.filters.whole is not None:
            first = self.whole is None
            if self.whole is None:
                self.whole = self.space.empty(tuple(self.filters.whole.shape), g)
            mix_filter_gradient(g, x, self.whole, self.space, beta=0 if first else 1)
        else:
            grad = self.space.empty((2, g.shape[1], g.shape[3], x.shape[3]), g)
            mix_filter_gradient(g, x, grad, self.space)
            self._distribute(grad, part)

    def finish(self) -> None:
        """Distribute what was summed over the parts of the batch."""
        if self.whole is not None:
            self._distribute(self.whole, slice(0, self.filters.L.shape[1]))

    def _distribute(self, g: Tensor, part: slice) -> None:
        """From the gradient g of C u to those of C, b, L and w, where u = L w + b."""
        f = self.filters
        u = f.ungated(part) if self.C is not None else None
        g = g.view(2, -1, f.groups, f.c_out, f.c_in)
        if f.C is not None:
            if self.C is not None and u is not None:
                self.C += product(g, u, conjugate=True).sum(dim=1)
            g = product(g, f.C[:, None], conjugate=True)
        if self.b is not None:
            self.b[:, part] += g.sum(dim=(2, 3, 4)).view_as(self.b[:, part])
        points = part.stop - part.start
        flat = g.reshape(2 * points, -1)
        if f.real:
            if self.L is not None:
                self.L[:, part] += (flat @ f.partial.t()).view(2, points, -1)
            if self.partial is not None:
                self.partial.addmm_(f.L[:, part].reshape(2 * points, -1).t(), flat)
            return
        if self.L is not None:
            direct, crossed = (flat @ f.partial[0].t()).view(2, points, -1), (flat @ f.partial[1].t()).view(2, points, -1)
            self.L[0, part] += direct[0] + crossed[1]
            self.L[1, part] += direct[1] - crossed[0]
        if self.partial is not None:
            L = f.L[:, part]
            self.partial[0].addmm_(L.reshape(2 * points, -1).t(), flat)
            self.partial[1].addmm_(rotate(L).reshape(2 * points, -1).t(), flat)


def group_first(x: Tensor, groups: int) -> Tensor:
    """(..., p, batch, g c) -> (..., p g, batch, c): groups become grid points."""
    return x if groups == 1 else x.unflatten(-1, (groups, -1)).transpose(-2, -3).flatten(-4, -3).contiguous()


def group_last(x: Tensor, groups: int) -> Tensor:
    """(..., p g, batch, c) -> (..., p, batch, g c): the way back."""
    return x if groups == 1 else x.unflatten(-3, (-1, groups)).transpose(-2, -3).flatten(-2).contiguous()
