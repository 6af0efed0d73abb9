"""Channel mixing tap by tap, for two-dimensional filters and small batches: no filters over the grid.

The transformed filters are w^[p, q] = sum_j L_2[q, j] V_j[p] with V_j[p] = sum_i L_1[p, i] w_ij, channel pairs at every point p of
the first dimension alone. So y^[p, q] = sum_j L_2[q, j] (V_j[p] x^[p, q]): one product per p, and a weighted sum over the k_2
taps j. It holds k_2 times the mixed channels, while the transformed filters are c_out c_in numbers per point, however small the
batch.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from xdops.engine.mixing import CHUNK
from xdops.engine.planar import product, write_batched, write_product
from xdops.engine.workspace import Workspace


class TapFilters:
    """Filters (c_out, c_in, k_1, k_2), real, transformed along the first dimension alone; L_1 (2, n_1, k_1), L_2 (2, n_2, k_2)."""

    groups = 1
    whole = None

    def __init__(self, w: Tensor, L_1: Tensor, L_2: Tensor, space: Workspace) -> None:
        self.space = space
        self.c_out, self.c_in, k_1, self.k = w.shape
        self.L_1, self.L_2 = L_1, L_2
        self.n, self.rest = L_1.shape[1], L_2.shape[1]
        self.w = w.permute(2, 1, 3, 0).reshape(k_1, -1)  # (k_1, c_in k_2 c_out)
        self.V = (L_1.reshape(2 * self.n, k_1) @ self.w).view(2, self.n, self.c_in, self.k * self.c_out)

    def chunks(self, batch: int) -> Iterator[slice]:
        """Parts of the first dimension for which the mixed channels of all taps stay in the cache."""
        step = max(1, CHUNK // (2 * self.rest * batch * self.k * self.c_out))
        return (slice(s, min(self.n, s + step)) for s in range(0, self.n, step))

    def weights(self, batch: int) -> Tensor:
        """L_2 as (2, k_2, n_2 batch, c_out): written out, so that it meets mixed channels number by number."""
        return self.L_2.mT[..., None].expand(-1, -1, -1, batch * self.c_out).reshape(2, self.k, -1, self.c_out)

    def per_tap(self, x: Tensor, part: slice) -> Tensor:
        """V_j x at some points of the first dimension, x (2, p, n_2 batch, c_in) -> (2, p, n_2 batch, k_2, c_out)."""
        z = self.space.empty((*x.shape[:3], self.k * self.c_out), x)
        return write_batched(z, x, self.V[:, part]).unflatten(3, (self.k, self.c_out))

    def mix(self, x_hat: Tensor, y_hat: Tensor) -> None:
        """x_hat (2, n_1, n_2, batch, c_in) into y_hat (2, n_1, n_2, batch, c_out)."""
        weights = self.weights(x_hat.shape[3])
        for part in self.chunks(x_hat.shape[3]):
            z, y = self.per_tap(x_hat[:, part].flatten(2, 3), part), y_hat[:, part].flatten(2, 3)
            for j in range(self.k):
                write_product(y, z[:, :, :, j], weights[:, None, j], add=j > 0)


class TapGradients:
    """Collects the gradients of everything that makes the filters, from one batch."""

    b = C = None

    def __init__(self, filters: TapFilters, need_w: bool, need_L: bool) -> None:
        self.filters, self.need_w, self.need_L = filters, need_w, need_L
        self.V = torch.empty_like(filters.V) if need_w or need_L else None
        self.weights: Tensor | None = None
        self.w: Tensor | None = None
        self.L_1: Tensor | None = None
        self.L_2: Tensor | None = None

    def collect(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> None:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat."""
        f = self.filters
        weights = f.weights(x_hat.shape[3])
        if self.need_L:
            self.weights = torch.zeros_like(weights)
        for part in f.chunks(x_hat.shape[3]):
            x, g, grad_x = (t[:, part].flatten(2, 3) for t in (x_hat, g_hat, grad_x_hat))
            if self.weights is not None:
                z = f.per_tap(x, part)
                for j in range(f.k):
                    self.weights[:, j] += product(g, z[:, :, :, j], conjugate=True).sum(1)
                del z
            dz = f.space.empty((*x.shape[:3], f.k, f.c_out), x)
            for j in range(f.k):
                write_product(dz[:, :, :, j], g, weights[:, None, j], conjugate=True)
            dz = dz.flatten(3)
            write_batched(grad_x, dz, f.V[:, part].mT, conjugate=True)
            if self.V is not None:  # x^H dz
                xr, xi = x.mT
                torch.bmm(xr, dz[0], out=self.V[0, part]).baddbmm_(xi, dz[1])
                torch.bmm(xr, dz[1], out=self.V[1, part]).baddbmm_(xi, dz[0], alpha=-1)

    def finish(self) -> None:
        """From the gradients of V and of L_2 written out to those of w and L."""
        f = self.filters
        if self.V is not None and self.need_w:
            grad = f.L_1.reshape(2 * f.n, -1).t() @ self.V.view(2 * f.n, -1)
            self.w = grad.view(-1, f.c_in, f.k, f.c_out).permute(3, 1, 0, 2)
        if self.V is not None and self.weights is not None:
            self.L_1 = (self.V.view(2 * f.n, -1) @ f.w.t()).view(2, f.n, -1)
            self.L_2 = self.weights.view(2, f.k, f.rest, -1).sum(3).mT
