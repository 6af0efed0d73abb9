"""The taps form: y = sum_j w_j (A_j x) with A_j = Re(K diag(L[:, j]) M), a real matrix per filter tap.

No filters over the grid and, in one dimension, no complex numbers: k products along the signal and one channel mix. Masking
every A_j to lower triangular makes the operation causal, exactly and whatever the architecture becomes; a causal convolution is
unchanged by it.

In N dimensions taps nest: K diag(L e_j) M is a Kronecker product of C_i = K_i diag(L_i[:, j_i]) M_i, complex until the last
one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.engine.build import dense_matrices
from xdops.engine.costs import dense_matrix_seconds
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.passes import Maybe, compute
from xdops.engine.plan import Plan
from xdops.engine.planar import matmul, multiply, rotate
from xdops.engine.rates import Rates
from xdops.engine.tap_products import products, products_back
from xdops.engine.workload import Workload
from xdops.engine.workspace import Workspace, workspace

#: Rows in one block of a causal operation: a block needs no column after its last row.
CAUSAL_BLOCK = 128


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.complex_weight or (len(work.sizes) > 1 and (work.has_b or work.has_C)):
        return None
    passes = 3.0 if work.train else 1.0
    build_passes = passes if work.train_arch else 1.0
    dims = len(work.sizes)
    triangle = 0.65 if work.causal and work.outputs[0] >= 2 * CAUSAL_BLOCK else 1.0
    copies = (2 if work.has_C else 1) * (work.kernel[-1] + (1 if work.has_b else 0))
    flops = seconds = 0.0
    for n, d, m, r, k in zip(work.sizes, work.domain, work.inputs, work.outputs, work.kernel, strict=True):
        build = (4.0 if dims == 1 else 8.0) * k * r * d * m * triangle
        flops += build_passes * build
        made = 3 * dense_matrix_seconds(n, d, max(work.depth), rates)
        seconds += build_passes * (rates.product(build, m) + rates.traffic(6 * k * r * d) + made)
    taps, spatial, parts = 1, list(work.inputs), 1
    channels = min(work.c_in, work.c_out) if dims > 1 and math.prod(work.kernel) == 1 else work.c_in  # mixed first
    for i in range(dims - 1):
        others = 1.0
        for j, size in enumerate(spatial):
            others *= size if j != i else 1
        step = 4.0 * parts * work.kernel[i] * work.outputs[i] * work.inputs[i] * work.batch * channels * taps * others
        flops += passes * step
        moved = 8 * work.kernel[i] * work.batch * channels * taps * others
        seconds += passes * (rates.product(step, min(work.outputs[i], work.inputs[i])) + rates.traffic(moved))
        taps, parts = taps * work.kernel[i], 2
        spatial[i] = work.outputs[i]
    area = 1.0
    for size in spatial:
        area *= size
    mix = 2.0 * parts * work.batch * (work.c_in / work.groups) * work.c_out * taps * copies * area
    lead = work.c_in if dims == 1 else work.c_out
    last = 2.0 * parts * copies * work.outputs[-1] * work.batch * lead * area * triangle
    flops += passes * (mix + last)
    seconds += passes * rates.product(mix, min(work.c_in / work.groups * taps, work.c_out))
    seconds += passes * rates.product(last, min(work.outputs[-1], work.inputs[-1]))
    widest = copies * work.batch * max(work.c_in, work.c_out) * taps * area
    seconds += passes * rates.traffic(4 * parts * widest) + 40 * rates.call
    causal, few = (
        "causal: every tap's matrix is masked to the past",
        "few taps, many channels for the size: no filters over the grid",
    )
    return Plan("taps", (), flops, 4 * parts * widest, seconds, causal if work.causal else few)


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    """A matrix per tap, made from dense K, L and M."""
    keys = [(name, i) for name in "KLM" for i in range(e.dims)]
    dense = dense_matrices([*e.K, *e.L, *e.M], [e.part(*key) for key in keys])
    tensors = [t.to(e.dtype) for t in dense]
    K, L, M = tensors[: e.dims], tensors[e.dims : 2 * e.dims], tensors[2 * e.dims :]
    if e.dims > 1:
        nested = [tap_matrices(*triple) for triple in zip(K, L, M, strict=True)]
        return apply_taps(e.input, e.filters, nested, e.groups)
    w, spectra = all_taps(e, L[0])
    return compute(Taps(e.groups, Reach(e.where.rows[0], e.causal, CAUSAL_BLOCK)), e.input, w, K[0], spectra, M[0])


def plain(e: Evaluation) -> Tensor:
    """One dimension in differentiable steps."""
    K, L, M = (t.to(e.dtype) for t in dense_matrices([*e.K, *e.L, *e.M], [e.part(name, 0) for name in "KLM"]))
    w, spectra = all_taps(e, L)
    return Taps(e.groups, Reach(e.where.rows[0], e.causal, CAUSAL_BLOCK)).plain((e.input, w, K, spectra, M))


FORM = Form("taps", plan, evaluate)


def all_taps(e: Evaluation, L: Tensor) -> tuple[Tensor, Tensor]:
    """Filters and columns of L in one dimension: b is one tap more, and complex gates double the taps."""
    w, b, C = e.filters, e.b, e.C
    if b is not None:
        L = torch.cat((L, b[..., None].to(L.dtype)), dim=2)
        w = torch.cat((w, torch.ones_like(w[..., :1])), dim=2)
    if C is not None:  # Re(C z) = Re C Re z - Im C Im z, and Im z = Re(-i z)
        gates = C.flatten(1, 2)[..., None]
        L = torch.cat((L, -rotate(L)), dim=2)
        w = torch.cat((gates[0] * w, -gates[1] * w), dim=2)
    return w, L


def tap_matrices(K: Tensor, L: Tensor, M: Tensor) -> Tensor:
    """(2, k, r, m): K diag(L[:, j]) M for every tap j, from planar K (2, r, n), L (2, n, k), M (2, n, m)."""
    scaled = multiply(K[:, None], L.mT[:, :, None])  # (2, k, r, n)
    return matmul(scaled.flatten(1, 2), M).unflatten(1, scaled.shape[1:3])


@dataclass(frozen=True)
class Reach:
    """Which outputs see which inputs in one dimension, and how many rows are done at a time."""

    rows: range
    ahead: int | None  # a causal output t sees inputs up to t + ahead; None: all
    block: int

    def blocks(self, columns: int) -> Iterator[tuple[slice, int]]:
        """Slices of the outputs, and how many inputs the last output of each can see."""
        count = 1 if self.ahead is None else max(1, len(self.rows) // self.block)
        for i in range(count):
            part = slice(len(self.rows) * i // count, len(self.rows) * (i + 1) // count)
            seen = columns if self.ahead is None else max(1, min(columns, self.rows[part.stop - 1] + self.ahead + 1))
            yield part, seen

    def mask_(self, A: Tensor, part: slice) -> Tensor:
        """Zero the future in A (k, rows of the part, seen), in place."""
        if self.ahead is not None:  # the columns that the first row sees need no mask
            columns = range(max(0, min(A.shape[2], self.rows[part.start] + self.ahead + 1)), A.shape[2])
            A[:, :, columns.start :] *= causal_mask(self.rows[part], columns, self.ahead, A)
        return A


@dataclass(frozen=True)
class Taps:
    """One dimension: x (batch, c_in, m), w (c_out, c_in/g, k), planar K (2, r, n), L (2, n, k), M (2, n, m) -> (batch, c_out, r).

    Per block of rows: A = [Re, -Im](K diag L) times the stacked parts of M, masked; z = A x; y = w z. A causal block needs no
    column after its last row, which saves a third of the work on long sequences.
    """

    groups: int
    reach: Reach

    def forward(self, tensors: Sequence[Maybe], keep: bool) -> tuple[Tensor, list[Tensor]]:
        x, w, K, L, M = (t for t in tensors if t is not None)
        batch, c_in, m = x.shape
        k = L.shape[2]
        mixing = w.reshape(self.groups, w.shape[0] // self.groups, -1)
        y, space = x.new_empty(batch, w.shape[0], K.shape[1]), workspace()
        kept = []
        for part, seen in self.reach.blocks(m):
            r = part.stop - part.start
            A = self.reach.mask_(made(K, L, M, part, seen, space), part)
            z = space.empty((batch, self.groups, c_in // self.groups * k, r), x)
            torch.mm(x[:, :, :seen].reshape(batch * c_in, seen), A.view(k * r, seen).t(), out=z.view(batch * c_in, k * r))
            y[:, :, part] = (mixing @ z).view(batch, -1, r)
            kept += [A, z]
        return y, kept if keep else []

    def backward(self, g: Tensor, tensors: Sequence[Maybe], kept: Sequence[Tensor], needs: Sequence[bool]) -> list[Maybe]:
        x, w, K, L, M = (t for t in tensors if t is not None)
        batch, c_in, m = x.shape
        (n, k), space = L.shape[1:], workspace()
        stacked, mixing = M.reshape(2 * n, m), w.reshape(self.groups, w.shape[0] // self.groups, -1)
        K, taps = K.contiguous(), L.mT.contiguous()
        grad_x, grad_w = torch.zeros_like(x), x.new_empty(0)
        grad_K, grad_taps, grad_M = torch.empty_like(K), torch.zeros_like(taps), torch.zeros_like(M).view(2 * n, m)
        for index, (part, seen) in enumerate(self.reach.blocks(m)):
            A, z = kept[2 * index : 2 * index + 2]
            r = part.stop - part.start
            grad_y = g[:, :, part].reshape(batch, self.groups, -1, r)
            own = (grad_y @ z.mT).sum(0) if batch > 1 else (grad_y @ z.mT)[0]
            grad_w = grad_w.add_(own) if index else own
            grad_z = torch.matmul(mixing.mT, grad_y, out=space.empty(tuple(z.shape), z)).view(batch * c_in, k * r)
            if needs[0]:
                grad_x[:, :, :seen] += (grad_z @ A.view(k * r, seen)).view(batch, c_in, seen)
            if any(needs[2:5]):
                grad_A = space.empty((k, r, seen), x)
                flat = grad_A.view(k * r, seen)
                torch.mm(grad_z.t(), x[:, :, :seen].reshape(batch * c_in, seen), out=flat)
                self.reach.mask_(grad_A, part)
                if needs[4]:
                    grad_M[:, :seen].addmm_(products(K, taps, part, space).t(), flat)
                scaled = torch.mm(flat, stacked[:, :seen].t(), out=space.empty((k * r, 2 * n), x))
                products_back(scaled, K, taps, part, grad_K, grad_taps, space)
        grads = (grad_x, grad_w.view_as(w), grad_K, grad_taps.mT, grad_M.view_as(M))
        return [grad if need else None for grad, need in zip(grads, needs, strict=True)]

    def plain(self, tensors: Sequence[Maybe]) -> Tensor:
        x, w, K, L, M = (t for t in tensors if t is not None)
        A = tap_matrices(K, L, M)[0]
        if self.reach.ahead is not None:
            A = A * causal_mask(self.reach.rows, range(A.shape[2]), self.reach.ahead, A)
        return apply_real_taps(x, w, A, self.groups)


def made(K: Tensor, L: Tensor, M: Tensor, part: slice, seen: int, space: Workspace) -> Tensor:
    """(k, rows of the part, seen): the matrices of one block, not masked yet."""
    A = space.empty((L.shape[2], part.stop - part.start, seen), K)
    scaled = products(K.contiguous(), L.mT.contiguous(), part, space)
    torch.mm(scaled, M[:, :, :seen].reshape(-1, seen), out=A.view(-1, seen))
    return A


def causal_mask(rows: range, columns: range, ahead: int, like: Tensor) -> Tensor:
    """(r, m): 1 where output row t may see input column s, that is s <= t + ahead."""
    t = torch.arange(rows.start, rows.stop, rows.step, device=like.device)
    return (torch.arange(columns.start, columns.stop, device=like.device) <= t[:, None] + ahead).to(like.dtype)


def apply_real_taps(x: Tensor, w: Tensor, A: Tensor, groups: int) -> Tensor:
    """One dimension: x (batch, c_in, m), w (c_out, c_in/g, k), A (k, r, m) -> (batch, c_out, r)."""
    batch, c_in, m = x.shape
    k, r, _ = A.shape
    z = (x.reshape(batch * c_in, m) @ A.reshape(k * r, m).t()).view(batch, groups, c_in // groups * k, r)
    return (w.reshape(groups, w.shape[0] // groups, -1) @ z).view(batch, w.shape[0], r)


def apply_taps(x: Tensor, w: Tensor, matrices: Sequence[Tensor], groups: int) -> Tensor:
    """N dimensions: x (batch, c_in, m...), w (c_out, c_in/g, k...), matrices (2, k_i, r_i, m_i) -> (batch, c_out, r...).

    All dimensions but the last are transformed first, their taps joining the channels; then channels and those taps are mixed,
    for every tap of the last dimension, which is transformed at the end, where only the real part is needed. A single tap does not
    care: there channels are mixed first, if that leaves fewer of them.
    """
    dims = len(matrices)
    grouped = x.unflatten(1, (groups, -1))  # (batch, g, c, m_1..m_N)
    first = math.prod(w.shape[2:]) == 1 and w.shape[0] < x.shape[1]
    if first:
        grouped = _mixed(grouped, w.reshape(groups, w.shape[0] // groups, -1))
    parts = [grouped]  # real, or real and imaginary
    for i, C in enumerate(matrices[:-1]):
        real = [_along(part, C[0], 3 + i) for part in parts]
        imaginary = [_along(part, C[1], 3 + i) for part in parts]
        parts = [real[0], imaginary[0]] if len(parts) == 1 else [real[0] - imaginary[1], real[1] + imaginary[0]]
    last = matrices[-1]
    order = (dims - 1 + 2, 0, 1, *range(2, dims + 1))  # (k_N, c_out, c_in/g, k_1..k_{N-1})
    mixing = w.permute(order).reshape(last.shape[1], groups, w.shape[0] // groups, -1)
    y: Tensor | None = None
    for j in range(last.shape[1]):
        for part, matrix, sign in zip(parts, (last[0, j], last[1, j]), (1, -1), strict=False):
            mixed = part if first else _mixed(part, mixing[j])
            term = sign * (mixed.flatten(1, 2) @ matrix.t())
            y = term if y is None else y + term
    assert y is not None
    return y


def _mixed(x: Tensor, w: Tensor) -> Tensor:
    """(batch, g, c, ..) times w (g, c_out/g, c): (batch, g, c_out/g, ..)."""
    return (w @ x.flatten(3)).unflatten(3, x.shape[3:])


def _along(x: Tensor, C: Tensor, dim: int) -> Tensor:
    """(batch, g, c, ..) times C (k, r, m) along `dim`, the taps joining the channels: (batch, g, c k, ..)."""
    k, r, m = C.shape
    z = x.movedim(dim, -1) @ C.reshape(k * r, m).t()  # (batch, g, c, others, k r)
    z = z.unflatten(-1, (k, r)).movedim(-2, 3).movedim(-1, dim + 1)  # (batch, g, c, k, ..)
    return z.flatten(2, 3)
