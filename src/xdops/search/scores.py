"""The metric of a part of the data, example by example: what two networks are compared by.

A `MeanMetric` is final(sum_i t_i / sum_i u_i), with t_i what it adds up on example i and u_i the units that it is a mean of (1, or
the time steps of a sequence). The t_i and u_i are kept, so that the metric of any resampling of the examples can be computed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from xdops.search.distributed import gather
from xdops.search.examples import Examples
from xdops.search.predictions import batches_of, in_eval_mode, on_device, predict
from xdops.search.problem import MeanMetric, Problem
from xdops.search.settings import SearchSettings


@dataclass(frozen=True)
class Scores:
    totals: tuple[float, ...]  # t_i
    units: tuple[float, ...]  # u_i, the same for every network

    def to_dict(self) -> dict[str, Any]:
        return {"totals": list(self.totals), "units": list(self.units)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Scores":
        totals, units = (tuple(float(value) for value in data[name]) for name in ("totals", "units"))
        if len(totals) != len(units):
            raise ValueError(f"{len(totals)} totals of {len(units)} examples")
        return cls(totals, units)


@torch.no_grad()
def score(
    fabric: Fabric, network: nn.Module, problem: Problem, metric: MeanMetric, examples: Examples, settings: SearchSettings
) -> Scores:
    """Of the network in eval mode on every example, each process taking its share."""
    shares = torch.arange(len(examples)).tensor_split(fabric.world_size)
    found: list[tuple[float, float]] = []
    with in_eval_mode(fabric, network):
        for indices in batches_of(fabric, shares[fabric.global_rank], settings):
            batch = on_device(fabric, examples.batch(indices), settings)
            prediction = predict(fabric, network, batch.x, settings, problem.predictor)
            for one in (slice(i, i + 1) for i in range(len(indices))):
                total, units = metric.function(prediction[one], batch.part(one))
                found.append((float(total), float(units)))
    dtype = torch.float32 if fabric.device.type == "mps" else torch.float64
    own = torch.tensor(found, dtype=dtype, device=fabric.device).reshape(-1, 2)
    totals, units = gather(fabric, own, [len(share) for share in shares]).T.tolist()
    return Scores(tuple(totals), tuple(units))
