"""Channel mixing tap by tap in compiled kernels, which make the filters of a point and use them: see `kernels.points`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.engine.kernels import threads
from xdops.engine.kernels.applying import address
from xdops.engine.planar import product
from xdops.engine.workspace import Workspace

#: Channels are padded to multiples of the kernels' vectors.
LANES = 8


class PointFilters:
    """Filters (c_out, c_in, k_1, k_2), real, transformed along the first dimension alone; L_1 (2, n_1, k_1), L_2 (2, n_2, k_2).

    Gates C (2, 1, c_out, c_in) are on V already. b (2, n_1, n_2) is one more tap, whose filters are the gates, or ones, and whose
    weights, in the place of L_2's, are b's own at every point.
    """

    groups = 1
    whole = None

    def __init__(self, w: Tensor, L_1: Tensor, L_2: Tensor, b: Tensor | None, C: Tensor | None, space: Workspace) -> None:
        self.space, self.b, self.C = space, b, C
        self.c_out, self.c_in, k_1, self.taps = w.shape
        self.L_1, self.pairs = L_1, L_2.movedim(0, -1).contiguous()
        self.n, self.rest = L_1.shape[1], L_2.shape[1]
        self.w = self._padded(w.permute(2, 3, 1, 0)).contiguous()  # (k_1, k_2, rows, columns)
        V = space.empty((2 * self.n, self.w[0].numel()), w)
        self.ungated = torch.mm(L_1.reshape(2 * self.n, k_1), self.w.view(k_1, -1), out=V).view(2, self.n, *self.w.shape[1:])
        self.gates = None if C is None else self._padded(C[:, 0].mT)[:, None, None]  # (2, 1, 1, rows, columns)
        self.V = self.ungated if self.gates is None else product(self.ungated, self.gates)
        if b is not None:
            self.V = torch.cat((self.V, self._filters_of_b().expand(2, self.n, 1, *self.w.shape[2:])), dim=2)
            self.pairs = torch.cat((self.pairs.expand(self.n, -1, -1, -1), b.movedim(0, -1)[:, :, None]), dim=2)
        self.k = self.V.shape[2]

    def _padded(self, t: Tensor) -> Tensor:
        """(..., c_in, c_out) with channels of zeros, to whole vectors."""
        return F.pad(t, (0, -self.c_out % LANES, 0, -self.c_in % LANES))

    def _filters_of_b(self) -> Tensor:
        if self.gates is not None:
            return self.gates
        ones = self._padded(self.w.new_ones(self.c_in, self.c_out))
        return torch.stack((ones, torch.zeros_like(ones)))[:, None, None]

    def mix(self, x_hat: Tensor, y_hat: Tensor) -> None:
        """x_hat (2, n_1, n_2, batch, c_in) into y_hat (2, n_1, n_2, batch, c_out)."""
        from xdops.engine.kernels.points import forward

        parts = threads.parts(self.n)
        row, _work = self._row(x_hat, y_hat, parts)
        forward(x_hat.dtype, row, parts)

    def mix_backward(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat. Returns those of V and, planar, of the
        taps' weights: (2, n_2, k), or (2, n_1, n_2, k) with b."""
        from xdops.engine.kernels.points import backward

        parts = threads.parts(self.n)
        row, _work = self._row(x_hat, g_hat, parts)
        grad_V = self.space.empty(tuple(self.V.shape), self.V).zero_()
        grad_L = self.V.new_zeros(parts if self.b is None else self.n, self.rest, self.k, 2, LANES)
        backward(x_hat.dtype, [*row, address(grad_x_hat), address(grad_V), address(grad_L)], parts)
        return grad_V, (grad_L.sum((0, -1)) if self.b is None else grad_L.sum(-1)).movedim(-1, 0)

    def _row(self, x_hat: Tensor, y_hat: Tensor, parts: int) -> tuple[list[int], Tensor]:
        """What both kernels are told, see there, and their working memory: for every part filters, their gradient, and channels of
        all examples, twice as they come and once as they leave."""
        rows, columns = self.V.shape[-2:]
        batch, apart = x_hat.shape[3], 0 if self.b is None else self.rest * self.k
        room = 4 * rows * columns + 2 * batch * (rows + columns + max(rows, columns))
        work = self.space.empty((parts, room), x_hat)
        sizes = (self.n, self.rest, self.k, batch, self.c_in, self.c_out, rows, columns, apart)
        return [*map(address, (self.V, self.pairs, x_hat, y_hat, work)), room, *sizes], work


class PointGradients:
    """Collects the gradients of everything that makes the filters, from one part of the batch after the other."""

    def __init__(self, filters: PointFilters, need_w: bool, need_L: bool, need_b: bool, need_C: bool) -> None:
        self.filters, self.need_w, self.need_L = filters, need_w, need_L
        self.need_b, self.need_C = need_b and filters.b is not None, need_C and filters.C is not None
        self.V: Tensor | None = None
        self.weights: Tensor | None = None  # of the taps
        self.w: Tensor | None = None
        self.L_1: Tensor | None = None
        self.L_2: Tensor | None = None
        self.b: Tensor | None = None
        self.C: Tensor | None = None

    def collect(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> None:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat."""
        V, weights = self.filters.mix_backward(g_hat, x_hat, grad_x_hat)
        self.V = V if self.V is None else self.V.add_(V)
        self.weights = weights if self.weights is None else self.weights + weights

    def finish(self) -> None:
        """From the gradients of V and of the taps' weights to those of w, L, b and C."""
        f, weights, V = self.filters, self.weights, self.V
        assert V is not None
        assert weights is not None
        if f.b is not None:
            self.b = weights[..., f.taps].contiguous() if self.need_b else None
            weights = weights[..., : f.taps].sum(1)
        of_b, V = V[:, :, f.taps :], V[:, :, : f.taps]
        if f.gates is not None:
            if self.need_C:
                gates = product(V, f.ungated, conjugate=True).sum((1, 2)) + of_b.sum((1, 2))
                self.C = gates[:, None, : f.c_in, : f.c_out].mT.contiguous()
            V = product(V, f.gates, conjugate=True)
        grad_V = V.reshape(2 * f.n, -1)
        if self.need_w:
            grad = (f.L_1.reshape(2 * f.n, -1).t() @ grad_V).view_as(f.w)
            self.w = grad[:, :, : f.c_in, : f.c_out].permute(3, 2, 0, 1)
        if self.need_L:
            self.L_1 = (grad_V @ f.w.view(f.w.shape[0], -1).t()).view(2, f.n, -1)
            self.L_2 = weights
