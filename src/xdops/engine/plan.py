"""Which of the exact ways to evaluate an XD-operation: an immutable plan, chosen by a cost model, printable, cached.

The model counts multiplications, memory traffic and calls of every form, and divides them by the machine's rates. The rates
have sane defaults; `calibrate()` measures them. Plans never depend on how long an earlier call took, so that runs repeat
exactly.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from xdops.engine.build import group_sizes, groupings
from xdops.engine.mixing import CHUNK
from xdops.engine.transforms import FEW_COLUMNS
from xdops.errors import XDError
from xdops.matrices.radices import prime_factors


@dataclass(frozen=True)
class Rates:
    """Of one machine: large products (flop/s), copies (byte/s), a call (s); products of blocks of size `half` run at half rate."""

    gemm: float = 1.0e11
    memory: float = 1.0e10
    call: float = 8e-6
    half: float = 20.0

    def product(self, flops: float, smallest: float) -> float:
        """Seconds for products whose smallest dimension is so large."""
        return flops * (1 + self.half / max(1.0, smallest)) / self.gemm

    def traffic(self, numbers: float) -> float:
        """Seconds for reading or writing so many numbers of four bytes."""
        return 4 * numbers / self.memory


@dataclass(frozen=True)
class Problem:
    """Everything a plan depends on."""

    sizes: tuple[int, ...]  # n
    inputs: tuple[int, ...]  # m, columns of M in use
    outputs: tuple[int, ...]  # rows of K in use
    kernel: tuple[int, ...]
    batch: int
    c_in: int
    c_out: int
    groups: int
    depth: tuple[int, int, int]
    radices: tuple[tuple[int, ...] | None, ...]  # per dimension; None where butterflies differ and cannot be grouped together
    meets_in_the_middle: bool  # M ends, and K begins, with the digit of the lowest stride
    has_b: bool
    has_C: bool
    complex_weight: bool
    causal: bool
    source: bool  # the warm start's own layer may stand in
    train_arch: bool  # K, L or M want gradients
    train: bool  # anything wants gradients
    dtype: torch.dtype
    device: str

    @property
    def points(self) -> int:
        out = 1
        for n in self.sizes:
            out *= n
        return out


@dataclass(frozen=True)
class Plan:
    """One way to evaluate: its form, how K and M are grouped per dimension, what it costs, and why it was chosen."""

    form: str
    grouping: tuple[tuple[int, ...] | None, ...] = ()
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    why: str = ""
    by_tap: bool = False  # channels mix tap by tap, without filters over the grid

    def __str__(self) -> str:
        cost = f"{self.flops / 1e6:.3g} Mflop, {self.bytes / 2**20:.3g} MiB of working memory, about {self.seconds * 1e3:.3g} ms"
        return f"{self.form} ({cost}): {self.why}"


def _spectral(p: Problem, groups: int, rates: Rates) -> Plan | None:
    """Dense matrices per dimension (groups 1), or K and M in two or three groups."""
    if p.causal:
        return None
    grouping: list[tuple[int, ...] | None] = []
    for radices in p.radices:
        if groups == 1:
            grouping.append(None)
            continue
        if radices is None or len(radices) < groups:
            return None
        costs = {cut: sum(group_sizes(radices, cut)) for cut in groupings(radices, groups)}
        grouping.append(min(costs, key=lambda cut: costs[cut]))
    passes = (3.0 if p.train_arch else 2.0) if p.train else 1.0
    flops = seconds = 0.0
    most = 0.0
    for side, c, depth in (("M", p.c_in, p.depth[2]), ("K", p.c_out, p.depth[0])):
        spatial = list(p.inputs if side == "M" else p.outputs)
        for i in range(len(p.sizes) - 1, -1, -1):
            # Both ways cost the same: from the last dimension to the first into the domain, and back.
            n, short = p.sizes[i], spatial[i]
            others = 1.0
            for j, size in enumerate(p.sizes):
                if j != i:
                    others *= size if j > i else spatial[j]
            columns = p.batch * c * others
            real = i == len(p.sizes) - 1
            cut = grouping[i]
            if cut is None:
                step = (4.0 if real else 8.0) * n * short * columns
                flops += passes * step
                seconds += passes * (rates.product(step, min(short, n)) + rates.traffic(2 * n * columns)) + 6 * rates.call
                if short < FEW_COLUMNS:  # written as rows and turned around, which moves single numbers
                    seconds += rates.traffic((10 if real else 20) * short * columns)
                most = max(most, 4 * n * columns)
            else:
                radices = p.radices[i]
                assert radices is not None
                sizes = group_sizes(radices, cut)
                stages = len(sizes) + (depth - 1) * (len(sizes) - 1)
                per_stage = 8.0 * n * columns * sum(sizes) / len(sizes)
                step = per_stage * (stages - (0.5 if real else 0))
                flops += passes * step
                seconds += passes * (rates.product(step, min(sizes)) + rates.traffic(4 * n * columns * (stages + 1)))
                seconds += 8 * stages * rates.call * (1 + (sizes[0] if len(sizes) > 2 else 0))
                most = max(most, 8 * n * columns)
    seconds += _building(p, grouping, rates)
    formed, by_tap = _mixing(p, passes, rates), _mixing_by_tap(p, passes, rates)
    mixing = formed if by_tap is None or formed[1] <= by_tap[1] else by_tap
    flops, seconds = flops + mixing[0], seconds + mixing[1]
    if groups == 1:
        why = "a dense matrix per dimension: few points, or many taps for the price"
    else:
        cuts = ", ".join(
            "x".join(map(str, group_sizes(r, g)))
            for r, g in zip(p.radices, grouping, strict=True)
            if r is not None and g is not None
        )
        why = f"K and M as products of block-diagonal matrices, {cuts}"
    name = {1: "spectral", 2: "grouped", 3: "grouped3"}[groups]
    if mixing is by_tap:
        why += "; channels mix tap by tap: filters over the grid are many for the batch"
    return Plan(name, tuple(grouping), flops, 4 * most, seconds, why, mixing is by_tap)


def _joined(p: Problem, rates: Rates) -> Plan | None:
    """All dimensions as one: dense matrices for the whole grid."""
    if p.causal or len(p.sizes) == 1:
        return None
    n, m, r, k = (math.prod(sizes) for sizes in (p.sizes, p.inputs, p.outputs, p.kernel))
    one = replace(p, sizes=(n,), inputs=(m,), outputs=(r,), kernel=(k,), radices=(None,))
    plan = _spectral(one, 1, rates)
    assert plan is not None
    seconds = plan.seconds - _building(one, [None], rates) + _building(p, [None] * len(p.sizes), rates)
    seconds += (2 if p.train_arch else 1) * (rates.traffic(8 * n * (m + r + k)) + 30 * len(p.sizes) * rates.call)  # multiplied out
    why = "one dense matrix for all dimensions: few points in all, and products with long sides"
    return replace(plan, form="joined", grouping=(), seconds=seconds, why=why)


def _mixing(p: Problem, passes: float, rates: Rates) -> tuple[float, float]:
    """Flops and seconds of mixing channels with filters over the grid."""
    pairs = p.c_out * p.c_in / p.groups
    products = (passes + (1 if p.train_arch else 0)) * 8.0 * p.points * p.batch * pairs
    filters = 2 * passes * 4.0 * p.points * pairs * p.kernel[0] * (2 if p.complex_weight or len(p.sizes) > 1 else 1)
    small = 1 / (1 / p.batch + 1 / (p.c_in / p.groups) + 1 / (p.c_out / p.groups))
    seconds = rates.product(products, 2 * small) + rates.product(filters, 2 * p.kernel[0])
    return products + filters, seconds + 2 * passes * rates.traffic(2 * p.points * pairs) + 30 * rates.call


def _mixing_by_tap(p: Problem, passes: float, rates: Rates) -> tuple[float, float] | None:
    """The same tap by tap: a product as large as that with filters for every tap of the second dimension, but no filters."""
    if len(p.sizes) != 2 or p.groups > 1 or p.has_b or p.has_C or p.complex_weight:
        return None
    taps = p.kernel[1]
    products = (passes + (1 if p.train_arch else 0)) * 8.0 * p.points * p.batch * p.c_out * p.c_in * taps
    mixed = 2.0 * p.points * p.batch * p.c_out * taps
    calls = (8 + 4 * taps) * passes * (1 + mixed // CHUNK)
    return products, rates.product(products, 2 * min(p.c_in, p.c_out)) + passes * rates.traffic(3 * mixed) + calls * rates.call


def _building(p: Problem, grouping: Sequence[tuple[int, ...] | None], rates: Rates) -> float:
    """Seconds to merge K and M of all dimensions that are not grouped, in all passes."""
    passes = (3.0 if p.train else 1.0) if p.train_arch else 1.0
    dense = [n for n, cut in zip(p.sizes, grouping, strict=True) if cut is None]
    return passes * sum(_build(n, depth, rates) for n in dense for depth in (p.depth[0], p.depth[2]))


def _build(n: int, depth: int, rates: Rates) -> float:
    """Seconds to merge a K-matrix of this depth into one dense matrix."""
    factors = len(prime_factors(n))
    return depth * (factors * 6 * rates.call + rates.traffic(12 * n * n)) + (depth - 1) * rates.product(8.0 * n**3, n)


def _taps(p: Problem, rates: Rates) -> Plan | None:
    if p.complex_weight or (len(p.sizes) > 1 and (p.has_b or p.has_C)):
        return None
    passes = 3.0 if p.train else 1.0
    dims = len(p.sizes)
    triangle = 0.65 if p.causal and p.outputs[0] >= 2 * CAUSAL_BLOCK else 1.0
    copies = (2 if p.has_C else 1) * (p.kernel[-1] + (1 if p.has_b else 0))
    flops = seconds = 0.0
    for n, m, r, k, depth in zip(p.sizes, p.inputs, p.outputs, p.kernel, [max(p.depth)] * dims, strict=True):
        build = (4.0 if dims == 1 else 8.0) * k * r * n * m * triangle
        flops += (passes if p.train_arch else 1) * build
        seconds += (passes if p.train_arch else 1) * (
            rates.product(build, m) + rates.traffic(6 * k * r * n) + 3 * _build(n, depth, rates)
        )
    taps, spatial, parts = 1, list(p.inputs), 1
    for i in range(dims - 1):
        others = 1.0
        for j, size in enumerate(spatial):
            others *= size if j != i else 1
        step = 4.0 * parts * p.kernel[i] * p.outputs[i] * p.inputs[i] * p.batch * p.c_in * taps * others
        flops += passes * step
        seconds += passes * (
            rates.product(step, min(p.outputs[i], p.inputs[i])) + rates.traffic(8 * p.kernel[i] * p.batch * p.c_in * taps * others)
        )
        taps, parts = taps * p.kernel[i], 2
        spatial[i] = p.outputs[i]
    area = 1.0
    for size in spatial:
        area *= size
    mix = 2.0 * parts * p.batch * (p.c_in / p.groups) * p.c_out * taps * copies * area
    lead = p.c_in if dims == 1 else p.c_out
    last = 2.0 * parts * copies * p.outputs[-1] * p.batch * lead * area * triangle
    flops += passes * (mix + last)
    seconds += passes * (
        rates.product(mix, min(p.c_in / p.groups * taps, p.c_out)) + rates.product(last, min(p.outputs[-1], p.inputs[-1]))
    )
    seconds += passes * rates.traffic(4 * parts * copies * p.batch * max(p.c_in, p.c_out) * taps * area) + 40 * rates.call
    memory = 4 * parts * copies * taps * p.batch * max(p.c_in, p.c_out) * area
    why = (
        "causal: every tap's matrix is masked to the past"
        if p.causal
        else "few taps, many channels for the size: no filters over the grid"
    )
    return Plan("taps", (), flops, memory, seconds, why)


def _grouped_taps(p: Problem, rates: Rates) -> Plan | None:
    """Causal, with K and M of depth 1 in two groups: H values of the high digit, D of the low; see `grouped_taps`."""
    radices = p.radices[0]
    shallow = p.depth[0] == p.depth[2] == 1 and p.meets_in_the_middle
    if not p.causal or p.complex_weight or not shallow or radices is None or len(radices) < 2:
        return None
    n, m, r = p.sizes[0], p.inputs[0], p.outputs[0]
    k = (2 if p.has_C else 1) * (p.kernel[0] + (1 if p.has_b else 0))
    passes = 3.0 if p.train else 1.0
    build_passes = passes if p.train_arch else 1.0

    def build(cut: tuple[int, ...]) -> tuple[float, float]:
        """Flops and seconds of making the matrices, with the calls for every value of the high digit."""
        low, high = group_sizes(radices, cut)
        middle, entries = 8.0 * k * high * low**3, 4.0 * k * high * r * m
        seconds = build_passes * (rates.product(middle, low) + rates.product(entries, high) + rates.traffic(4 * k * n * m))
        return build_passes * (middle + entries), seconds + passes * 4 * high * rates.call

    cut = min(groupings(radices, 2), key=lambda cut: build(cut)[1])
    low, high = group_sizes(radices, cut)
    flops, seconds = build(cut)
    apply = k * r * m * (1 + 1 / high) * p.batch * p.c_in  # 2 flops for every entry that is not in the future
    mix = 2.0 * p.batch * (p.c_in / p.groups) * p.c_out * k * r
    flops += passes * (apply + mix)
    seconds += passes * (rates.product(apply, k * low) + rates.product(mix, min(low, p.c_out / p.groups)))
    seconds += passes * (rates.traffic(4 * k * p.batch * p.c_in * r) + 240 * rates.call)
    memory = 4 * (2 * k * r * m + 2 * k * p.batch * p.c_in * r + 3 * n * m)
    why = f"causal: every tap's matrix is made from blocks of {high} and {low}, and masked to the past"
    return Plan("taps-grouped", (cut,), flops, memory, seconds, why)


def _source(p: Problem, rates: Rates) -> Plan | None:
    if not p.source:
        return None
    area = 1.0
    for r in p.outputs:
        area *= r
    for k in p.kernel:
        area *= k
    flops = (3.0 if p.train else 1.0) * 2 * p.batch * p.c_out * p.c_in / p.groups * area
    return Plan(
        "source",
        (),
        flops,
        0.0,
        rates.product(flops, 16),
        "the architecture is still the warm start's and frozen: the layer itself",
    )


def _definition(p: Problem, rates: Rates) -> Plan | None:
    if p.causal:
        return None
    return Plan("definition", (), 0.0, 0.0, float("inf"), "the formula as it stands, in complex arithmetic")


#: A new form is one function here and one branch in `XDOperation.evaluate`.
PLANNERS: dict[str, Callable[[Problem, Rates], Plan | None]] = {
    "source": _source,
    "spectral": lambda p, rates: _spectral(p, 1, rates),
    "joined": _joined,
    "grouped": lambda p, rates: _spectral(p, 2, rates),
    "grouped3": lambda p, rates: _spectral(p, 3, rates),
    "taps": _taps,
    "taps-grouped": _grouped_taps,
    "definition": _definition,
}

#: Rows in one block of a causal operation: a block needs no column after its last row.
CAUSAL_BLOCK = 128

_rates = Rates()


def make_plan(problem: Problem, name: str = "auto") -> Plan:
    """The plan called `name`, or the cheapest."""
    return _make_plan(problem, name, _rates)


@lru_cache(maxsize=4096)
def _make_plan(problem: Problem, name: str, rates: Rates) -> Plan:
    if name != "auto":
        if name not in PLANNERS:
            raise XDError(f"plan {name!r}", f"'auto' or one of {', '.join(PLANNERS)}", "plan='auto'")
        plan = PLANNERS[name](problem, rates)
        if plan is None:
            raise XDError(
                f"plan {name!r}", f"one of {', '.join(possible_plans(problem))} for this operation and input", "plan='auto'"
            )
        return plan
    candidates = [plan for make in PLANNERS.values() if (plan := make(problem, rates)) is not None]
    if not candidates:
        raise XDError("a causal operation with complex filters", "real filters", "two operations, one per part")
    if candidates[0].form == "source":
        return candidates[0]
    return min(candidates, key=lambda plan: plan.seconds)


def possible_plans(problem: Problem) -> list[str]:
    """The names that this problem could be planned with."""
    return [name for name, make in PLANNERS.items() if make(problem, _rates) is not None]


def rates() -> Rates:
    """The rates in force."""
    return _rates


def set_rates(new: Rates) -> None:
    """Plan with these rates from now on."""
    global _rates
    _rates = new


def calibrate(seconds: float = 1.0) -> Rates:
    """Measure this machine's rates, within about so many seconds, and plan with them from now on."""

    def best(run: Callable[[], object]) -> float:
        run()
        fastest, until = float("inf"), time.perf_counter() + seconds / 4
        while True:
            start = time.perf_counter()
            run()
            end = time.perf_counter()
            fastest = min(fastest, end - start)
            if end > until:
                return fastest

    large = torch.randn(512, 512)
    gemm = 2 * 512**3 / best(lambda: large @ large)
    blocks, columns = torch.randn(32, 16, 16), torch.randn(32, 16, 1280)
    out = torch.empty(32, 16, 1280)
    batched = 2 * 32 * 16 * 16 * 1280 / best(lambda: torch.bmm(blocks, columns, out=out))
    big = torch.randn(1 << 23)
    other = torch.empty_like(big)
    memory = 2 * 4 * big.numel() / best(lambda: other.copy_(big))
    tiny = torch.randn(4)
    call = best(lambda: tiny + tiny)
    measured = replace(Rates(), gemm=gemm, memory=memory, call=4 * call, half=min(64.0, max(4.0, 16 * (gemm / batched - 1))))
    set_rates(measured)
    return measured
