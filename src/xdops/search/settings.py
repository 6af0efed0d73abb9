"""What a search is told: plain data, checked when made, saved as JSON beside every checkpoint."""

import dataclasses
import math
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from xdops.arguments import check_fields
from xdops.errors import XDError, several

OptimizerName = Literal["sgd", "adam", "adamw", "rmsprop"]
ScheduleName = Literal["constant", "step", "cosine", "plateau"]
Precision = Literal["32-true", "bf16-mixed", "64-true"]
Accelerator = Literal["auto", "cpu", "cuda", "mps"]
#: Smaller steps and gradients change no weight in single precision.
LEAST_STEP = 1e-12
#: A step of this size leaves single precision at once, or soon.
LARGEST_STEP = 1e9


@dataclass(frozen=True)
class OptimizerSettings:
    """One optimizer. momentum: SGD and RMSprop; betas: Adam and AdamW; alpha: RMSprop's decay; eps: all but SGD."""

    name: OptimizerName = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    alpha: float = 0.99
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_fields(self)
        _at_least("lr", self.lr, 0)
        if self.lr < LEAST_STEP:
            expected = f"a step size of at least {LEAST_STEP:g}"
            raise XDError(f"lr={self.lr:g}, which learns nothing", expected, "lr=1e-3, or warmup to freeze the architecture")
        if self.lr > LARGEST_STEP:
            raise XDError(f"lr={self.lr:g}, which leaves all weights behind", f"a step size of at most {LARGEST_STEP:g}", "lr=1e-3")
        _at_least("momentum", self.momentum, 0)
        _at_least("weight_decay", self.weight_decay, 0)
        _at_least("eps", self.eps, 0)
        for name, decays in (("betas", self.betas), ("alpha", (self.alpha,))):
            if not all(0 <= value < 1 for value in decays):
                raise XDError(f"{name}={getattr(self, name)}", "from 0 to below 1", f"{name}={getattr(OptimizerSettings, name)}")
        if self.momentum and self.name in ("adam", "adamw"):
            raise XDError(f"momentum={self.momentum} with {self.name}", "betas for Adam", f"betas=({self.momentum}, 0.999)")
        if self.nesterov and (self.name != "sgd" or not self.momentum):
            raise XDError("nesterov=True without momentum", "SGD with momentum", "name='sgd', momentum=0.9")


@dataclass(frozen=True)
class ScheduleSettings:
    """The factor on every step size, by epoch.

    step: at each milestone (below 1 a fraction of all epochs, else an epoch) the step size is multiplied by `factor`, one number or
    one per milestone. cosine: from 1 down to `floor`. plateau: multiplied by `factor` whenever validation, after the first `after`
    epochs, is worse than in each of the last `patience` epochs.
    """

    name: ScheduleName = "constant"
    milestones: tuple[float, ...] = (0.5, 0.75)
    factor: float | tuple[float, ...] = 0.1
    floor: float = 0.0
    patience: int = 3
    after: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        factors = self.factor if isinstance(self.factor, tuple | list) else (self.factor,)
        for value in factors:
            _at_least("factor", value, 0)
        if isinstance(self.factor, tuple | list) and self.name == "step" and len(self.factor) != len(self.milestones):
            raise XDError(
                f"{several(len(self.factor), 'factor')} for {several(len(self.milestones), 'milestone')}",
                "one per milestone, or one number",
                "factor=0.1",
            )
        if isinstance(self.factor, tuple | list) and self.name == "plateau":
            raise XDError(f"factor={self.factor} for a plateau schedule", "one number", "factor=0.1")
        for value in self.milestones:
            _at_least("milestones", value, 0)
        _at_least("floor", self.floor, 0)
        _at_least("patience", self.patience, 1)
        _at_least("after", self.after, 0)


@dataclass(frozen=True)
class SearchSettings:
    """Joint training of weights and architecture.

    batch_size: examples per forward pass over all processes together; `accumulate` of them make one step. The architecture follows
    the weights' schedule from its own step size, and is frozen in the first `warmup` and the last `cooldown` epochs. clip: largest
    gradient norm, of the weights and of the architecture each by itself, so that the backbone's own recipe stays what it was;
    without clip_architecture of the weights alone.
    processes: data-parallel processes on this machine (one device each), or 1 and those of `torchrun`; batch norm then sees each
    process's own share, as usual in torch, unless sync_batchnorm makes it that of all.
    """

    epochs: int = 20
    batch_size: int = 64
    seed: int = 0
    weights: OptimizerSettings = field(default_factory=lambda: OptimizerSettings("sgd", 0.1, 0.9))
    architecture: OptimizerSettings = field(default_factory=lambda: OptimizerSettings("adam", 1e-3))
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    warmup: int = 0
    cooldown: int = 0
    clip: float | None = None
    clip_architecture: bool = True
    accumulate: int = 1
    precision: Precision = "32-true"
    accelerator: Accelerator = "auto"
    processes: int = 1
    eval_batch_size: int | None = None
    sync_batchnorm: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "batch_size", "accumulate", "processes"):
            _at_least(name, getattr(self, name), 1)
        for name in ("warmup", "cooldown"):
            _at_least(name, getattr(self, name), 0)
        for name in ("epochs", "batch_size", "accumulate", "warmup", "cooldown"):
            _at_most(name, getattr(self, name), _LARGEST)
        check_seed(self.seed)
        most = 4 * (os.cpu_count() or 1)
        if self.processes > most:
            raise XDError(f"processes={self.processes}", f"at most {most}, four per core of this machine", "processes=1")
        if self.eval_batch_size is not None:
            _at_least("eval_batch_size", self.eval_batch_size, 1)
        if self.clip is not None and not LEAST_STEP <= self.clip < math.inf:
            raise XDError(f"clip={self.clip}", f"a norm of at least {LEAST_STEP:g}, or None", "clip=1.0")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data. What came later is left out while it is at its default: older runs stay the same runs."""
        data = _plain(dataclasses.asdict(self))
        later = ((data, "clip_architecture", True), (data, "sync_batchnorm", False), (data["schedule"], "after", 0))
        for part, name, default in later:
            if part[name] == default:
                del part[name]
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SearchSettings":
        """The settings that `to_dict` wrote."""
        known = {f.name for f in dataclasses.fields(cls)}
        if set(data) - known:
            raise XDError(f"search settings {sorted(set(data) - known)}", f"some of {sorted(known)}", "the version that wrote them")
        parts: dict[str, Any] = {"weights": OptimizerSettings, "architecture": OptimizerSettings, "schedule": ScheduleSettings}
        values: dict[str, Any] = {k: _tuples(v) if isinstance(v, dict) else v for k, v in data.items()}
        return cls(**{k: parts[k](**v) if k in parts else v for k, v in values.items()})

    def frozen(self, epoch: int) -> bool:
        """Whether the architecture is frozen in this epoch (counted from 0)."""
        return epoch < self.warmup or epoch >= self.epochs - self.cooldown


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _at_least(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        usual = 0.01 if name == "lr" else 1
        raise XDError(f"{name}={value!r}", f"a number of at least {least}", f"{name}={max(least, usual)}")
    if isinstance(least, int) and name in _WHOLE and not isinstance(value, int):
        raise XDError(f"{name}={value!r}", "a whole number", f"{name}={max(round(value), least)}")


_WHOLE = {"epochs", "batch_size", "accumulate", "processes", "seed", "warmup", "cooldown", "eval_batch_size", "patience", "after"}


def check_seed(seed: int) -> None:
    """What random generators take."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST:
        raise XDError(f"seed {seed}", f"a whole number from 0 to {_LARGEST:,}", "seed 0")


def _at_most(name: str, value: float, most: float) -> None:
    if value > most:
        raise XDError(f"{name}={value!r}", f"at most {most:,}", f"{name}=1")


#: Of counts and seeds: what fits into 32 bits, wherever it is handed on to.
_LARGEST = 2**31 - 1
