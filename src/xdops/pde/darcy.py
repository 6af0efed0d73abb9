"""Darcy flow on the unit square: -div(a grad u) = f, u = 0 on the boundary, with a permeability a of two values.

Five-point finite differences on a grid of s x s points, the boundary included; the coefficient of a face between two points is
their arithmetic mean. The equations are solved by conjugate gradients, preconditioned by the Laplacian, which sine transforms
invert exactly. Preconditioned, the spectrum lies between the smallest and the largest a whatever the grid, so that 12 against 3
takes about 20 iterations at every resolution: at 421 x 421 a sixth of the time of a sparse factorisation. A permeability so
uneven that this takes long is factorised instead.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from scipy.fft import dstn
from scipy.sparse.linalg import splu

from xdops.arguments import check_fields, checked
from xdops.errors import XDError
from xdops.pde.fields import neumann_field
from xdops.pde.limits import check_count, check_indices, check_positive, check_seed

TOLERANCE = 1e-10  # of the error, relative, in the norm of the preconditioner
ITERATIONS = 250  # by then a factorisation is cheaper; reached where a varies by more than about 400
LARGEST_CONTRAST = 1e10  # of the permeabilities: sums of double precision still see the smaller one


@dataclass(frozen=True)
class DarcySettings:
    """The published data: 421 x 421 points. The paper trains on 1000 samples and tests on 100."""

    samples: int = 1100
    size: int = 421
    seed: int = 0
    high: float = 12.0
    low: float = 3.0
    solver_size: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("samples", self.samples)
        check_seed(self.seed)
        check_positive("permeability high", self.high)
        check_positive("permeability low", self.low)
        if self.high == self.low:
            raise XDError(f"permeabilities {self.high:g} and {self.low:g}", "two: with one all samples are the same", "12 and 3")
        if not 1 / LARGEST_CONTRAST <= self.high / self.low <= LARGEST_CONTRAST:
            raise XDError(
                f"permeabilities {self.high:g} and {self.low:g}",
                f"a ratio of at most {LARGEST_CONTRAST:g}: the equations cannot be solved accurately otherwise",
                "values that are nearer to each other",
            )
        if self.size < 3:
            raise XDError(f"size {self.size}", "at least 3 points, of which two are the boundary", "size=85")
        if self.solver_size is not None and (self.solver_size < self.size or (self.solver_size - 1) % (self.size - 1)):
            raise XDError(
                f"size {self.size} from solver_size {self.solver_size}",
                f"intervals that divide: {self.solver_size} - 1 a multiple of {self.size} - 1",
                f"solver_size={5 * (self.size - 1) + 1}",
            )


@checked
def make_darcy(settings: DarcySettings, indices: range) -> tuple[np.ndarray, np.ndarray]:
    """Permeabilities and solutions, each (samples, size, size): a is `high` where N(0, (-Laplace + 9)^-2) >= 0, else `low`."""
    check_indices(indices, settings.samples)
    solver_size = settings.solver_size or settings.size
    field = neumann_field(indices, solver_size, settings.seed, sigma=1.0, tau=3.0, alpha=2.0)
    a = np.where(field.numpy() >= 0, settings.high, settings.low)
    u = solve_darcy(a)
    every = (solver_size - 1) // (settings.size - 1)
    return a[:, ::every, ::every], u[:, ::every, ::every]


@checked
def solve_darcy(a: np.ndarray, f: np.ndarray | float = 1.0) -> np.ndarray:
    """u on the grid of a: (s, s) or (batch, s, s), samples side by side on as many cores as torch may use.

    f is a number, or values on the grid for all samples, (s, s), or for each, (batch, s, s).
    """
    for name, values in (("a", a), ("f", np.asarray(f))):
        if values.dtype.kind not in "fiub":
            raise XDError(f"{name} of type {values.dtype}", "real numbers", "numpy.asarray(values, dtype=float)")
    a = np.asarray(a, dtype=np.float64)
    _check(a)
    forces = np.asarray(f, dtype=np.float64)
    if forces.ndim and forces.shape not in (a.shape, a.shape[-2:]):
        raise XDError(f"f of shape {forces.shape} for a of shape {a.shape}", "a number, or the shape of a or of one sample", "f=1")
    if not np.isfinite(forces).all():
        raise XDError("f with values that are not finite", "numbers", "check where f comes from")
    if a.ndim == 2:
        return _solve(a, np.broadcast_to(forces, a.shape))
    pool = ThreadPoolExecutor(torch.get_num_threads())
    try:
        return np.stack(list(pool.map(_solve, a, np.broadcast_to(forces, a.shape))))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C only what is under way


@checked
def darcy_matrix(a: np.ndarray) -> scipy.sparse.csc_matrix:
    """The equations of the interior points, row by row: sparse, symmetric, positive definite."""
    down, right, diagonal = _faces(a)
    index = np.arange(diagonal.size).reshape(diagonal.shape)
    inner = ((index[1:], index[:-1], down[1:-1]), (index[:, 1:], index[:, :-1], right[:, 1:-1]))
    rows = [index, *(i for one, other, _ in inner for i in (one, other))]
    columns = [index, *(i for one, other, _ in inner for i in (other, one))]
    values = [diagonal, *(-face for _, _, face in inner for _ in range(2))]
    flat = [np.concatenate([part.ravel() for part in parts]) for parts in (values, rows, columns)]
    return scipy.sparse.coo_matrix((flat[0], (flat[1], flat[2]))).tocsc()


def _solve(a: np.ndarray, f: np.ndarray) -> np.ndarray:
    u = np.zeros_like(a)
    f = f[1:-1, 1:-1]
    interior = _iterate(a, f)
    u[1:-1, 1:-1] = _factorise(a, f) if interior is None else interior
    return u


def _iterate(a: np.ndarray, f: np.ndarray) -> np.ndarray | None:
    """Conjugate gradients; None where they have not converged after ITERATIONS."""
    u, residual = np.zeros_like(f), np.array(f)
    if not residual.any():
        return u
    faces = _faces(a)
    inverse = _inverse_spectrum(len(f))
    direction, norm, first = np.zeros_like(f), 1.0, None
    for _ in range(ITERATIONS):
        smooth = dstn(dstn(residual, type=1) * inverse, type=1)
        previous, norm = norm, np.vdot(residual, smooth)
        first = norm if first is None else first
        if norm <= TOLERANCE**2 * first:
            return u
        direction = smooth + norm / previous * direction
        image = _apply(faces, direction)
        step = norm / np.vdot(direction, image)
        u += step * direction
        residual -= step * image
    return None


def _factorise(a: np.ndarray, f: np.ndarray) -> np.ndarray:
    symmetric = {"SymmetricMode": True}
    factors = splu(darcy_matrix(a), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
    return factors.solve(f.ravel()).reshape(f.shape)


Faces = tuple[np.ndarray, np.ndarray, np.ndarray]


def _faces(a: np.ndarray) -> Faces:
    """Coefficients of the faces along both axes, and their sum at each interior point, all over the squared spacing."""
    scale = (len(a) - 1) ** 2 / 2
    down = scale * (a[1:, 1:-1] + a[:-1, 1:-1])
    right = scale * (a[1:-1, 1:] + a[1:-1, :-1])
    return down, right, down[1:] + down[:-1] + right[:, 1:] + right[:, :-1]


def _apply(faces: Faces, u: np.ndarray) -> np.ndarray:
    """darcy_matrix times u, without the matrix."""
    down, right, diagonal = faces
    image = diagonal * u
    image[1:] -= down[1:-1] * u[:-1]
    image[:-1] -= down[1:-1] * u[1:]
    image[:, 1:] -= right[:, 1:-1] * u[:, :-1]
    image[:, :-1] -= right[:, 1:-1] * u[:, 1:]
    return image


def _inverse_spectrum(points: int) -> np.ndarray:
    """One over the Laplacian's eigenvalues, with the scale of two unnormalised sine transforms."""
    intervals = points + 1
    eigenvalues = (2 * intervals * np.sin(np.pi * np.arange(1, intervals) / (2 * intervals))) ** 2
    return 1 / ((eigenvalues[:, None] + eigenvalues) * (2 * intervals) ** 2)


def _check(a: np.ndarray) -> None:
    if a.ndim not in (2, 3) or a.shape[-1] != a.shape[-2] or a.shape[-1] < 3 or not len(a):
        raise XDError(f"a of shape {a.shape}", "(size, size) or (batch, size, size) with a size of at least 3", "a square grid")
    wrong = ~(np.isfinite(a) & (a > 0))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise XDError(f"a with {int(wrong.sum())} values that are not positive numbers, the first at {where}: {a[where]}",
                      "a permeability, positive everywhere", "a > 0")  # fmt: skip
