"""What the parts of an evaluation cost, by count: products at the machine's rate, memory traffic, calls."""

import math
from collections.abc import Sequence

from xdops.engine import kernels
from xdops.engine.build import group_sizes
from xdops.engine.mixing import CHUNK
from xdops.engine.rates import Rates
from xdops.engine.transforms import FEW_COLUMNS
from xdops.engine.workload import Workload
from xdops.matrices.radices import prime_factors

#: Per dimension how the radices are cut into groups; None for a dense matrix.
Grouping = Sequence[tuple[int, ...] | None]

#: Flops and seconds.
Cost = tuple[float, float]

#: Matrices of a batched product that take as long as a call, however small they are.
PER_CALL = 20

#: Inputs more that a product in kernels could have for what is done beside it: columns are turned around, tiles do not fit.
TURNED = 5

#: Numbers of a point's filters that stay in the cache with their taps and their gradient.
CACHED_FILTERS = 1 << 11


def passes(work: Workload) -> float:
    """Forward alone, or with the gradient of the input, or also with those of the matrices."""
    return (3.0 if work.train_arch else 2.0) if work.train else 1.0


def transforms(work: Workload, grouping: Grouping, rates: Rates) -> tuple[float, float, float]:
    """Flops and seconds of M and K along all dimensions, and the most numbers between two of them."""
    flops = seconds = most = 0.0
    times = passes(work)
    for lengths, c, depth in ((work.inputs, work.c_in, work.depth[2]), (work.outputs, work.c_out, work.depth[0])):
        for i in range(len(work.domain) - 1, -1, -1):
            # Both ways cost the same: from the last dimension to the first into the domain, and back.
            n, short, cut = work.domain[i], lengths[i], grouping[i]
            others = 1.0
            for j, size in enumerate(work.domain):
                if j != i:
                    others *= size if j > i else lengths[j]
            columns = work.batch * c * others
            real = i == len(work.domain) - 1
            if cut is None:
                step = (4.0 if real else 8.0) * n * short * columns
                flops += times * step
                seconds += times * (rates.product(step, min(short, n)) + rates.traffic(2 * n * columns)) + 6 * rates.call
                if short < FEW_COLUMNS:  # written as rows and turned around, which moves single numbers
                    seconds += rates.traffic((10 if real else 20) * short * columns)
                most = max(most, 4 * n * columns)
            else:
                sizes = group_sizes(work.radices[i] or (), cut)
                inner = (depth - 1) * (len(sizes) - 1)  # stages of butterflies that are whole in any domain
                stages = len(sizes) + inner
                points = n * len(sizes) + work.sizes[i] * inner  # through all stages
                step = 8.0 * columns * (points - (0.5 * n if real else 0)) * sum(sizes) / len(sizes)
                flops += times * step
                seconds += times * (rates.product(step, min(sizes)) + rates.traffic(4 * columns * (points + n)))
                seconds += 8 * stages * rates.call * (1 + (sizes[0] if len(sizes) > 2 else 0))
                most = max(most, 8 * n * columns)
    return flops, seconds, most


def fused_transforms(work: Workload, rates: Rates) -> tuple[float, float, float]:
    """The same, factor by factor in compiled kernels; the backward pass goes forward once more, as gradients of factors need it."""
    flops = seconds = most = 0.0
    times = (4.0 if work.train_arch else 2.0) if work.train else 1.0
    for lengths, c, depth in ((work.inputs, work.c_in, work.depth[2]), (work.outputs, work.c_out, work.depth[0])):
        for i, (n, domain) in enumerate(zip(work.sizes, work.domain, strict=True)):
            others = math.prod(size if j > i else lengths[j] for j, size in enumerate(work.domain) if j != i)
            columns = work.batch * c * others
            radices = work.radices[i] or prime_factors(n)
            step = 8.0 * columns * (domain * sum(radices) + (depth - 1) * n * sum(radices))
            flops += times * step
            seconds += times * (rates.compiled(step, (domain + lengths[i]) * columns) + 6 * rates.call)
            most = max(most, 4 * domain * columns)
    return flops, seconds, most


def tiled_transforms(work: Workload, rates: Rates) -> tuple[float, float, float]:
    """The same with dense matrices in compiled kernels; in the backward pass the last dimension is transformed once more."""
    flops = seconds = most = 0.0
    times = passes(work)
    for lengths, c in ((work.inputs, work.c_in), (work.outputs, work.c_out)):
        for i, n in enumerate(work.domain):
            others = math.prod(size if j > i else lengths[j] for j, size in enumerate(work.domain) if j != i)
            columns, real = work.batch * c * others, i == len(work.domain) - 1
            step = (4.0 if real else 8.0) * n * (lengths[i] + TURNED) * columns
            again = 1 if real and work.train_arch and len(work.domain) > 1 else 0
            flops += (times + again) * step
            seconds += (times + again) * rates.compiled(step)
            seconds += times * (rates.compiled(0, (n + lengths[i]) * columns) + 6 * rates.call)
            most = max(most, 4 * n * columns)
    return flops, seconds + building(work, [None] * len(work.domain), rates), most


def mixing(work: Workload, rates: Rates) -> Cost:
    """Mixing channels with filters over the grid."""
    times, pairs = passes(work), work.c_out * work.c_in / work.groups
    products = (times + (1 if work.train_arch else 0)) * 8.0 * work.points * work.batch * pairs
    filters = 2 * times * 4.0 * work.points * pairs * work.kernel[0] * (2 if work.complex_weight or len(work.sizes) > 1 else 1)
    small = 1 / (1 / max(1, work.batch) + work.groups / work.c_in + work.groups / work.c_out)
    seconds = rates.product(products, 2 * small) + rates.product(filters, 2 * work.kernel[0])
    matrices = 4 * times * work.points * work.groups
    calls = (30 + matrices / PER_CALL) * rates.call
    return products + filters, seconds + 2 * times * rates.traffic(2 * work.points * pairs) + calls


def mixing_by_tap(work: Workload, rates: Rates) -> Cost | None:
    """The same tap by tap: a product as large as that with filters for every tap of the second dimension, but no filters.

    Compiled kernels make the filters of a point, with channels in vectors of eight, and use them at once.
    """
    if len(work.sizes) != 2 or work.groups > 1 or work.complex_weight:
        return None
    times, taps = passes(work), work.kernel[1] + (1 if work.has_b else 0)
    if kernels.can_run(work.dtype, work.device) and work.c_in * work.c_out <= CACHED_FILTERS:
        made, used = (4, 3) if work.train else (1, 1)
        per_pair = 8.0 * work.points * (made * taps + used * work.batch)
        padded = (work.c_in + -work.c_in % 8) * (work.c_out + -work.c_out % 8)
        # Channels that fill no vectors are copied: inputs in and their gradients out, outputs out and their gradients in.
        inputs, outputs = (3, 2) if work.train else (1, 1)
        copied = inputs * (work.c_in if work.c_in % 8 else 0) + outputs * (work.c_out if work.c_out % 8 else 0)
        seconds = rates.compiled(per_pair * padded, 2.0 * work.points * work.batch * copied)
        return per_pair * work.c_in * work.c_out, seconds + 20 * times * rates.call
    if work.has_b or work.has_C:
        return None
    products = (times + (1 if work.train_arch else 0)) * 8.0 * work.points * work.batch * work.c_out * work.c_in * taps
    mixed = 2.0 * work.points * work.batch * work.c_out * taps
    calls = (8 + 4 * taps) * times * (1 + mixed // CHUNK)
    smallest = 2 * min(work.c_in, work.c_out)
    return products, rates.product(products, smallest) + times * rates.traffic(3 * mixed) + calls * rates.call


def building(work: Workload, grouping: Grouping, rates: Rates) -> float:
    """Seconds to merge K and M of all dimensions that are not grouped, in all passes."""
    times = (3.0 if work.train else 1.0) if work.train_arch else 1.0
    dense = [(n, p) for n, p, cut in zip(work.sizes, work.domain, grouping, strict=True) if cut is None]
    return times * sum(dense_matrix_seconds(n, p, depth, rates) for n, p in dense for depth in (work.depth[0], work.depth[2]))


def dense_matrix_seconds(n: int, domain: int, depth: int, rates: Rates) -> float:
    """Seconds to merge a K-matrix of this depth into one dense matrix, n on one side and the domain's points on the other."""
    factors = len(prime_factors(n))
    if kernels.installed():
        return rates.compiled(8.0 * n * depth * n * sum(prime_factors(n)), 2.0 * n * domain) + 8 * rates.call
    merging = depth * factors * 6 * rates.call + rates.traffic(12 * n * (domain + (depth - 1) * n))
    return merging + (depth - 1) * rates.product(8.0 * n * n * domain, domain)
