"""The spectral form with dense matrices that compiled kernels apply, in the cache, two dimensions at a time."""

from torch import Tensor

from xdops.engine import costs, kernels
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.fused import check_kernels, kernel_dtype
from xdops.engine.forms.spectral import dense, with_mixing
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.tiled import TiledLayout
from xdops.engine.workload import Workload

#: Points along a dimension: of more, a matrix and what it mixes do not stay in the smallest cache.
MOST = 64


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.causal or max(work.sizes) > MOST or not kernels.can_run(work.dtype, work.device):
        return None
    flops, seconds, most = costs.tiled_transforms(work, rates)
    why = "a dense matrix per dimension, in the cache: few points, for matrices of this depth"
    return with_mixing("tiled", work, flops, seconds, most, (), rates, why)


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    check_kernels(e, "tiled")
    dtype = kernel_dtype(e)
    matrices = dense(e, [(name, i) for name in "KLM" for i in range(e.dims)], dtype)
    K, M = matrices[: e.dims], matrices[2 * e.dims :]
    passes = Spectrum(
        e.groups,
        tuple(TiledLayout((A.shape[1], A.shape[2]), A.shape[2]) for A in K),
        tuple(TiledLayout((A.shape[1], A.shape[2]), A.shape[1]) for A in M),
        plan.by_tap,
    )
    others = (None if t is None else t.to(dtype) for t in (e.b, e.C))
    return compute(passes, e.input.to(dtype), e.taps.to(dtype), *others, *matrices).to(e.dtype)


FORM = Form("tiled", plan, evaluate)
