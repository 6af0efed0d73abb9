"""Butterflies, K-matrices and the special matrices they hold. Needs torch alone."""

from xdops.matrices.butterfly import Butterfly
from xdops.matrices.half import HalfButterfly
from xdops.matrices.kmatrix import KMatrix
from xdops.matrices.kronecker import Kronecker
from xdops.matrices.learnable import LearnableKMatrix
from xdops.matrices.matrix_plan import MatrixPlan, plan_matrix
from xdops.matrices.radices import MAX_RADIX, cheapest_size, default_radices, digit_reversal, half_radices, smooth_size
from xdops.matrices.sparse import sparse
from xdops.matrices.special import (
    dft,
    diagonal,
    identity,
    inverse_dft,
    permutation,
    random_gaussian,
    random_unitary,
    zero,
)
from xdops.matrices.structured import StructuredMatrix

__all__ = [
    "MAX_RADIX",
    "Butterfly",
    "HalfButterfly",
    "KMatrix",
    "Kronecker",
    "LearnableKMatrix",
    "MatrixPlan",
    "StructuredMatrix",
    "cheapest_size",
    "default_radices",
    "dft",
    "diagonal",
    "digit_reversal",
    "half_radices",
    "identity",
    "inverse_dft",
    "permutation",
    "plan_matrix",
    "random_gaussian",
    "random_unitary",
    "smooth_size",
    "sparse",
    "zero",
]
