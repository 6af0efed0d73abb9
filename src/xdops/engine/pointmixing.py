"""Channel mixing tap by tap in compiled kernels, which make the filters of a point and use them: see `kernels.points`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.engine.kernels import threads
from xdops.engine.kernels.applying import address
from xdops.engine.workspace import Workspace

#: Channels are padded to multiples of the kernels' vectors.
LANES = 8


class PointFilters:
    """Filters (c_out, c_in, k_1, k_2), real, transformed along the first dimension alone; L_1 (2, n_1, k_1), L_2 (2, n_2, k_2)."""

    groups = 1
    whole = None

    def __init__(self, w: Tensor, L_1: Tensor, L_2: Tensor, space: Workspace) -> None:
        self.space = space
        self.c_out, self.c_in, k_1, self.k = w.shape
        self.L_1, self.pairs = L_1, L_2.movedim(0, -1).contiguous()
        self.n, self.rest = L_1.shape[1], L_2.shape[1]
        pad = (0, -self.c_out % LANES, 0, -self.c_in % LANES)
        self.w = F.pad(w.permute(2, 3, 1, 0), pad).contiguous()  # (k_1, k_2, rows, columns)
        V = space.empty((2 * self.n, self.w[0].numel()), w)
        self.V = torch.mm(L_1.reshape(2 * self.n, k_1), self.w.view(k_1, -1), out=V).view(2, self.n, *self.w.shape[1:])

    def mix(self, x_hat: Tensor, y_hat: Tensor) -> None:
        """x_hat (2, n_1, n_2, batch, c_in) into y_hat (2, n_1, n_2, batch, c_out)."""
        from xdops.engine.kernels.points import forward

        parts = threads.parts(self.n)
        row, _work = self._row(x_hat, y_hat, parts)
        forward(x_hat.dtype, row, parts)

    def mix_backward(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat. Returns those of V and of L_2."""
        from xdops.engine.kernels.points import backward

        parts = threads.parts(self.n)
        row, _work = self._row(x_hat, g_hat, parts)
        grad_V = self.space.empty(tuple(self.V.shape), self.V).zero_()
        grad_L = self.V.new_zeros(parts, self.rest, self.k, 2, LANES)
        backward(x_hat.dtype, [*row, address(grad_x_hat), address(grad_V), address(grad_L)], parts)
        return grad_V, grad_L.sum((0, -1)).movedim(-1, 0)

    def _row(self, x_hat: Tensor, y_hat: Tensor, parts: int) -> tuple[list[int], Tensor]:
        """What both kernels are told, see there, and their working memory: for every part filters, their gradient, and channels of
        all examples, twice as they come and once as they leave."""
        rows, columns = self.V.shape[-2:]
        batch = x_hat.shape[3]
        room = 4 * rows * columns + 2 * batch * (rows + columns + max(rows, columns))
        work = self.space.empty((parts, room), x_hat)
        sizes = (self.n, self.rest, self.k, batch, self.c_in, self.c_out, rows, columns)
        return [*map(address, (self.V, self.pairs, x_hat, y_hat, work)), room, *sizes], work


class PointGradients:
    """Collects the gradients of everything that makes the filters, from one part of the batch after the other."""

    b = C = None

    def __init__(self, filters: PointFilters, need_w: bool, need_L: bool) -> None:
        self.filters, self.need_w, self.need_L = filters, need_w, need_L
        self.V: Tensor | None = None
        self.w: Tensor | None = None
        self.L_1: Tensor | None = None
        self.L_2: Tensor | None = None

    def collect(self, g_hat: Tensor, x_hat: Tensor, grad_x_hat: Tensor) -> None:
        """From the gradient g_hat of the mixed channels; that of x_hat into grad_x_hat."""
        V, L_2 = self.filters.mix_backward(g_hat, x_hat, grad_x_hat)
        self.V = V if self.V is None else self.V.add_(V)
        self.L_2 = L_2 if self.L_2 is None else self.L_2 + L_2

    def finish(self) -> None:
        """From the gradient of V to those of w and L_1."""
        f = self.filters
        assert self.V is not None
        grad_V = self.V.view(2 * f.n, -1)
        if self.need_w:
            grad = (f.L_1.reshape(2 * f.n, -1).t() @ grad_V).view_as(f.w)
            self.w = grad[:, :, : f.c_in, : f.c_out].permute(3, 2, 0, 1)
        if self.need_L:
            self.L_1 = (grad_V @ f.w.view(f.w.shape[0], -1).t()).view(2, f.n, -1)
        else:
            self.L_2 = None
