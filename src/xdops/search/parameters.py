"""The two kinds of trained parameters, their optimizers, and freezing the architecture."""

import torch
from torch import nn
from torch.optim import Optimizer

from xdops.convert import arch_parameters, weight_parameters
from xdops.errors import XDError
from xdops.search.settings import OptimizerSettings, SearchSettings


class Parameters:
    """Weights and architecture of a network, as they learn in one search."""

    def __init__(self, network: nn.Module, settings: SearchSettings) -> None:
        self.weights = [p for p in weight_parameters(network) if p.requires_grad]
        self.architecture = [p for p in arch_parameters(network) if p.requires_grad]
        if not self.weights and not self.architecture:
            raise XDError("a network without trained parameters", "parameters with requires_grad", "parameter.requires_grad_(True)")
        wide = any(p.dtype in (torch.float64, torch.complex128) for p in network.parameters())
        if wide and settings.precision != "64-true":
            raise XDError(f"a network in double precision with precision={settings.precision!r}", "'64-true'", "network.float()")
        self.optimizers: dict[str, Optimizer] = {}
        if self.weights:
            self.optimizers["weights"] = make_optimizer(settings.weights, self.weights)
        if self.architecture:
            self.optimizers["architecture"] = make_optimizer(settings.architecture, self.architecture)

    def freeze_architecture(self, frozen: bool) -> bool:
        """Fix the trained architecture, or let exactly it learn again; says whether anything changed."""
        changed = any(p.requires_grad == frozen for p in self.architecture)
        for p in self.architecture:
            p.requires_grad_(not frozen)
            if frozen:
                p.grad = None
        return changed

    def active(self) -> list[tuple[str, list[nn.Parameter]]]:
        """The groups that learn now."""
        groups = (("weights", self.weights), ("architecture", self.architecture))
        return [(name, group) for name, group in groups if group and group[0].requires_grad]


def make_optimizer(settings: OptimizerSettings, parameters: list[nn.Parameter]) -> Optimizer:
    """torch's own optimizer."""
    lr, decay, eps = settings.lr, settings.weight_decay, settings.eps
    match settings.name:
        case "sgd":
            return torch.optim.SGD(parameters, lr, settings.momentum, weight_decay=decay, nesterov=settings.nesterov)
        case "adam":
            return torch.optim.Adam(parameters, lr, settings.betas, eps, decay)
        case "adamw":
            return torch.optim.AdamW(parameters, lr, settings.betas, eps, decay)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, lr, settings.alpha, eps, decay, settings.momentum)
