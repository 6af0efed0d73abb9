"""The spectral form with K, L and M as they are: compiled kernels take blocks of columns through all factors, in the cache."""

import torch
from torch import Tensor

from xdops.engine import costs, kernels
from xdops.engine.build import some_columns
from xdops.engine.evaluation import Evaluation
from xdops.engine.forms.form import Form
from xdops.engine.forms.spectral import with_mixing
from xdops.engine.fused import FusedColumns, FusedLayout
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


def evaluate(e: Evaluation, plan: Plan) -> Tensor:
    if not kernels.installed() or e.x.device.type != "cpu":
        raise XDError(
            f"plan 'fused' on {e.x.device.type}",
            "numba, and tensors on the processor",
            "pip install 'xdops[kernels]', or plan='auto'",
        )
    dtype = e.dtype if kernels.can_run(e.dtype, "cpu") else torch.float32  # kernels know two dtypes
    layouts = {
        name: [FusedLayout.of(A, e.part(name, i)) for i, A in enumerate(row)]
        for name, row in zip("KLM", (e.K, e.L, e.M), strict=True)
    }
    values = {
        name: [[b.values.to(dtype) for b in A.butterflies] for A in row] for name, row in zip("KLM", (e.K, e.L, e.M), strict=True)
    }
    if e.operands.columns:
        L = [some_columns(A, columns).to(dtype) for A, columns in zip(e.L, e.operands.columns, strict=True)]
    else:
        L = [compute(FusedColumns(layout), *own) for layout, own in zip(layouts["L"], values["L"], strict=True)]
    tensors = [v for own in values["K"] for v in own], L, [v for own in values["M"] for v in own]
    passes = Spectrum(e.groups, tuple(layouts["K"]), tuple(layouts["M"]), plan.by_tap)
    others = (None if t is None else t.to(dtype) for t in (e.b, e.C))
    y = compute(passes, e.input.to(dtype), e.taps.to(dtype), *others, *(t for part in tensors for t in part))
    return y.to(e.dtype)


FORM = Form("fused", plan, evaluate)
