"""Every setting of the protein experiments, at two scales.

paper: as published (section 6, Table 10), on PDNET's download; PDNET's own 64 epochs, which the paper does not name. laptop: the
same code on 40 domains in a cross-validation, on crops of 64 x 64, for few epochs with step sizes that fall to zero. Every row
has three candidates, of which the validation loss of fold 0 chooses: step sizes of the weights for the networks as they are, of the
architecture for XD, whose weights take the middle one of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdops.reproduce.candidates import ONE, Tried
from xdops.reproduce.protein.networks import METHODS, XD
from xdops.reproduce.protein.problem import FOLDS
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings


@dataclass(frozen=True)
class Architecture:
    """How the architecture learns."""

    optimizer: OptimizerSettings
    warmup: int


@dataclass(frozen=True)
class Preset:
    """seeds: trials, or the folds of a cross-validation. architecture: by depth."""

    depths: tuple[int, ...]
    crop: int
    epochs: int
    lr: Mapping[str, float]  # by method
    schedule: ScheduleSettings
    architecture: Mapping[int, Architecture]
    seeds: tuple[int, ...]
    folds: bool
    batch_size: int = 2
    tried: Tried = ONE

    def candidates(self, method: str, depth: int) -> dict[str, "Preset"]:
        """This preset with every step size that a row chooses from, by what is said of it."""
        if method != XD:
            steps = self.tried.steps_of_weights(self.lr[method])
            return {name: replace(self, lr={**self.lr, method: lr}) for name, lr in steps.items()}
        own = self.architecture[depth]
        steps = self.tried.steps_of_architecture(own.optimizer.lr)
        learning = {name: replace(own, optimizer=replace(own.optimizer, lr=lr)) for name, lr in steps.items()}
        return {name: replace(self, architecture={**self.architecture, depth: new}) for name, new in learning.items()}

    def search(self, method: str, depth: int) -> SearchSettings:
        own = self.architecture[depth]
        return SearchSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=OptimizerSettings("rmsprop", self.lr[method], alpha=0.9, eps=1e-7),
            architecture=own.optimizer,
            schedule=self.schedule,
            warmup=own.warmup if method == XD else 0,
            eval_batch_size=1,
        )


#: The paper's Table 10.
TABLE_10 = {
    4: Architecture(OptimizerSettings("adam", 1e-4), 2),
    6: Architecture(OptimizerSettings("sgd", 1e-4, momentum=0.99), 2),
    10: Architecture(OptimizerSettings("sgd", 1e-3, momentum=0.99), 2),
    18: Architecture(OptimizerSettings("sgd", 5e-4, momentum=0.9), 2),
    34: Architecture(OptimizerSettings("sgd", 5e-4, momentum=0.9), 2),
}

PRESETS = {
    "paper": Preset(
        depths=(4, 6, 10, 18, 34),
        crop=128,
        epochs=64,
        lr=dict.fromkeys(METHODS, 1e-3),
        schedule=ScheduleSettings("constant"),
        architecture=TABLE_10,
        seeds=(0, 1, 2),
        folds=False,
    ),
    "laptop": Preset(
        depths=(4, 8),
        crop=64,
        epochs=30,
        lr=dict.fromkeys(METHODS, 1e-2),
        schedule=ScheduleSettings("cosine"),
        architecture=dict.fromkeys((4, 8), Architecture(OptimizerSettings("adam", 1e-3), 2)),
        seeds=tuple(range(FOLDS)),
        folds=True,
        tried=Tried(weights=(0.3, 1.0, 3.0), architecture=(0.3, 1.0, 3.0)),
    ),
}
