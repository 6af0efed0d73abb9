"""The spectral form with K, L and M as they are: compiled kernels take blocks of columns through all factors, in the cache."""

import torch
from torch import Tensor

from xdops.engine import costs, kernels
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.spectral import dense, with_mixing
from xdops.engine.fused import FusedLayout
from xdops.engine.passes import compute
from xdops.engine.plan import Plan
from xdops.engine.rates import Rates
from xdops.engine.spectrum import Spectrum
from xdops.engine.workload import Workload
from xdops.errors import XDError


def plan(work: Workload, rates: Rates) -> Plan | None:
    if work.causal or not kernels.can_run(work.dtype, work.device):
        return None
    flops, seconds, most = costs.fused_transforms(work, rates)
    why = "K and M factor by factor, in the cache"
    return with_mixing("fused", work, flops, seconds, most, (), rates, why)


def check_kernels(e: Evaluation, form: str) -> None:
    """Refuse to be asked for by name where there are no kernels."""
    if not kernels.installed() or e.x.device.type != "cpu":
        raise XDError(
            f"plan {form!r} on {e.x.device.type}",
            "numba, and tensors on the processor",
            "pip install 'xdops[kernels]', or plan='auto'",
        )


def kernel_dtype(e: Evaluation) -> torch.dtype:
    """That of the arithmetic, or float32: kernels know two dtypes."""
    return e.dtype if kernels.can_run(e.dtype, "cpu") else torch.float32


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    check_kernels(e, "fused")
    dtype = kernel_dtype(e)
    L = dense(e, [("L", i) for i in range(e.dims)], dtype)
    layouts = [
        tuple(FusedLayout.of(A, e.part(name, i)) for i, A in enumerate(row)) for name, row in zip("KM", (e.K, e.M), strict=True)
    ]
    K, M = ([b.values.to(dtype) for A in row for b in A.butterflies] for row in (e.K, e.M))
    passes = Spectrum(e.groups, layouts[0], layouts[1], plan.by_tap)
    others = (None if t is None else t.to(dtype) for t in (e.b, e.C))
    y = compute(passes, e.input.to(dtype), e.taps.to(dtype), *others, *K, *L, *M)
    return y.to(e.dtype)


FORM = Form("fused", plan, evaluate)
