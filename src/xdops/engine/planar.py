"""Complex arithmetic on planar tensors (2, ...): all real parts, then all imaginary parts, so that products are real ones."""

import torch
from torch import Tensor


def planar(values: Tensor) -> Tensor:
    """Complex (...) -> planar (2, ...)."""
    return torch.view_as_real(values.resolve_conj()).movedim(-1, 0).contiguous()


def from_pairs(pairs: Tensor) -> Tensor:
    """Real pairs (..., 2), as parameters are stored -> planar (2, ...)."""
    return pairs.movedim(-1, 0).contiguous()


def complex_of(values: Tensor) -> Tensor:
    """Planar (2, ...) -> complex (...)."""
    return torch.complex(values[0], values[1])


def rotate(u: Tensor) -> Tensor:
    """i u."""
    return torch.stack((-u[1], u[0]))


def adjoint(A: Tensor) -> Tensor:
    """A^H."""
    return torch.stack((A[0].mT, -A[1].mT))


def multiply(u: Tensor, v: Tensor) -> Tensor:
    """u v, entry by entry, in differentiable steps."""
    (a, b), (c, d) = u, v
    return torch.stack((a * c - b * d, a * d + b * c))


def matmul(A: Tensor, B: Tensor) -> Tensor:
    """A B, a product of matrices, in differentiable steps."""
    (a, b), (c, d) = A, B
    return torch.stack((a @ c - b @ d, a @ d + b @ c))


def write_product(out: Tensor, u: Tensor, v: Tensor, conjugate: bool = False, add: bool = False) -> Tensor:
    """out = u v, or u conj(v), entry by entry; `add`: onto what out holds."""
    s = -1 if conjugate else 1
    _write(out[0], u[0], v[0], add).addcmul_(u[1], v[1], value=-s)
    _write(out[1], u[1], v[0], add).addcmul_(u[0], v[1], value=s)
    return out


def _write(out: Tensor, a: Tensor, b: Tensor, add: bool) -> Tensor:
    return out.addcmul_(a, b) if add else torch.mul(a, b, out=out)


def product(u: Tensor, v: Tensor, conjugate: bool = False) -> Tensor:
    """u v, or u conj(v), entry by entry, into new memory."""
    out = u.new_empty(2, *torch.broadcast_shapes(u.shape[1:], v.shape[1:]))
    return write_product(out, u, v, conjugate)


def conjugate_sum(g: Tensor, v: Tensor, dim: int) -> Tensor:
    """The sum of g conj(v) over one dimension (counted without the planar one)."""
    return torch.stack(
        (
            (g[0] * v[0]).addcmul_(g[1], v[1]).sum(dim),
            (g[1] * v[0]).addcmul_(g[0], v[1], value=-1).sum(dim),
        )
    )


def write_batched(out: Tensor, A: Tensor, B: Tensor, conjugate: bool = False) -> Tensor:
    """out = A B, or A conj(B), batches of matrices (2, batch, rows, columns)."""
    s = -1 if conjugate else 1
    torch.bmm(A[0], B[0], out=out[0]).baddbmm_(A[1], B[1], alpha=-s)
    torch.bmm(A[1], B[0], out=out[1]).baddbmm_(A[0], B[1], alpha=s)
    return out
