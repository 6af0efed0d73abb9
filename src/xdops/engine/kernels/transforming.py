"""The kernels of K-matrices: columns along one dimension, and planes of two. For numba.

Both are made of the same factors, whose code is by far the most of them: in one function it is compiled once.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from xdops.engine.kernels.columns import backward_columns, forward_columns
from xdops.engine.kernels.compiling import sources
from xdops.engine.kernels.native import OWN, Native, integers
from xdops.engine.kernels.planes import backward_planes, forward_planes


def _kernels(kept_under):
    """Both passes; their compiled code is kept under the sources of all that they are made of."""

    def forward(given):
        """Words: whether there are planes, then theirs or those of columns."""
        _ = kept_under
        row = integers(given)
        if row[OWN]:
            forward_planes(given, row)
        else:
            forward_columns(given, row)

    def backward(given):
        _ = kept_under
        row = integers(given)
        if row[OWN]:
            backward_planes(given, row)
        else:
            backward_columns(given, row)

    return Native(forward), Native(backward)


forward, backward = _kernels(sources())
