"""What tells one run from another."""

import hashlib
import json
from typing import Any

from torch import nn

from xdops.errors import XDError
from xdops.search.problem import Problem
from xdops.search.settings import SearchSettings


def identify(network: nn.Module, problem: Problem, settings: SearchSettings, describe: dict[str, Any] | None) -> dict[str, Any]:
    """Everything that two runs must share for one to continue the other, as JSON data."""
    layout = [(k, list(getattr(v, "shape", ()))) for k, v in network.state_dict().items()]
    identity = {
        "format": 2,
        "settings": settings.to_dict(),
        "describe": describe or {},
        "network": {
            "class": type(network).__name__,
            "parameters": sum(p.numel() for p in network.parameters()),
            "layout": hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16],
        },
        "data": problem.signature(),
        "metric": problem.metric.name,
    }
    try:
        return json.loads(json.dumps(identity))
    except (TypeError, ValueError) as error:
        raise XDError(
            f"a description of the run that is not plain data ({error})", "JSON data", "describe={'space': 'xd'}"
        ) from error
