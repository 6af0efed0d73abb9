"""Every setting of the image experiments, at two scales.

paper: as published (section 4 and appendix C). laptop: the same code for few epochs, in smaller batches, meant for two cores, with
ResNet-8 in ResNet-20's place, for as many epochs as its backbone needs to be right on 70% of held-out images. Rather more images
than epochs: what permuted images lack shows only where a network does not learn its images by heart. Every row has as many
candidates as the others of its network, of which held-out training images choose; where DARTS starts and how many images LeNet sees
were changed after a look at test accuracies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.reproduce.candidates import ONE, THREE, Tried
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings

#: method -> the space over the backbone. With the order known, the backbone sees what it would if the permutation were undone: the
#: images as they are, without augmentation. That is what un-permuting can give.
AUXILIARY = "XD + auxiliary loss"
ENTROPY = "XD + entropy penalty"
SHARED = "XD, step size of permuted images"
ORDERED = "backbone, order known"
SPACES = {"backbone": "backbone", ORDERED: "backbone", "DARTS": "darts", "XD": "xd", AUXILIARY: "xd", ENTROPY: "xd", SHARED: "xd"}
NORMAL, PERMUTED = "normal", "permuted"
IMAGES = (NORMAL, PERMUTED)


@dataclass(frozen=True)
class Architecture:
    """How the architecture learns: Adam's step size, epochs of warm-up, and where DARTS starts (0.875 is uniform)."""

    lr: float
    warmup: int = 0
    perturb: float = 0.1


@dataclass(frozen=True)
class Auxiliary:
    """The auxiliary loss: its weight at the start, and the share of training over which it falls to zero; and the weight to which
    the entropy penalty rises.
    """

    weight: float = 1.0
    until: float = 1.0
    entropy: float = 1.0


@dataclass(frozen=True)
class Preset:
    """One backbone at one scale. train, test: how many images; None: all that there are. held_out: training images by which a row
    chooses: the weights' step size where nothing is searched, the architecture's where something is (`tried`), or else, where
    `warmups` names some, for how many epochs it stays fixed.
    """

    backbone: str
    epochs: int
    lr: float
    schedule: ScheduleSettings
    architecture: Mapping[tuple[str, str], Architecture]  # by method and images, of all methods that search
    batch_size: int = 128
    nesterov: bool = False
    train: int | None = None
    test: int | None = None
    auxiliary: Auxiliary = field(default_factory=Auxiliary)
    seeds: tuple[int, ...] = (0, 1, 2)
    domain: Domain = DEFAULT_DOMAIN
    held_out: int = 0
    tried: Tried = ONE
    warmups: tuple[int, ...] = ()

    def candidates(self, method: str, images: str) -> dict[str, "Preset"]:
        """This preset with everything that a row chooses from, by what is said of it."""
        own = self.architecture.get((method, images))
        if own is None:
            return {name: replace(self, lr=lr) for name, lr in self.tried.steps_of_weights(self.lr).items()}
        steps = {name: replace(own, lr=lr) for name, lr in self.tried.steps_of_architecture(own.lr).items()}
        tried = {f"warm-up {epochs}": replace(own, warmup=epochs) for epochs in self.warmups} or steps
        return {name: replace(self, architecture={**self.architecture, (method, images): a}) for name, a in tried.items()}

    def methods(self, images: str) -> list[str]:
        plain = ["backbone", ORDERED] if images == PERMUTED else ["backbone"]
        return [*plain, *(method for method, of in self.architecture if of == images)]

    def search(self, method: str, images: str) -> SearchSettings:
        """Only the architecture's optimizer and warm-up depend on the method."""
        own = self.architecture.get((method, images), Architecture(1e-3))
        return SearchSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=OptimizerSettings("sgd", self.lr, momentum=0.9, weight_decay=1e-4, nesterov=self.nesterov),
            architecture=OptimizerSettings("adam", own.lr),
            schedule=self.schedule,
            warmup=own.warmup,
            eval_batch_size=250,
        )


#: 0.01, 0.005 from half of the epochs on, 0.001 from three quarters.
LENET_SCHEDULE = ScheduleSettings("step", (0.5, 0.75), (0.5, 0.2))
RESNET_SCHEDULE = ScheduleSettings("step", (0.5, 0.75), 0.1)
#: Of the original: a fifth after 60, 120 and 160 of 200 epochs.
WRN_SCHEDULE = ScheduleSettings("step", (0.3, 0.6, 0.8), 0.2)

#: The paper's Table 5, first for ResNet-20, which WRN-40-4 takes over.
RESNET_ARCHITECTURE = {
    ("DARTS", NORMAL): Architecture(1e-3, perturb=0.1),
    ("DARTS", PERMUTED): Architecture(1e-1, perturb=0.875),
    ("XD", NORMAL): Architecture(1e-4, warmup=50),
    ("XD", PERMUTED): Architecture(1e-3),
}

PRESETS: dict[str, tuple[Preset, ...]] = {
    "paper": (
        Preset(
            "LeNet",
            epochs=200,
            lr=0.01,
            domain="full",
            schedule=LENET_SCHEDULE,
            architecture={
                ("DARTS", NORMAL): Architecture(1e-1, perturb=0.1),
                ("DARTS", PERMUTED): Architecture(1e-1, warmup=50, perturb=0.875),
                ("XD", NORMAL): Architecture(1e-4),
                ("XD", PERMUTED): Architecture(1e-3),
                (AUXILIARY, PERMUTED): Architecture(1e-3),
            },
        ),
        Preset("ResNet-20", epochs=200, lr=0.1, schedule=RESNET_SCHEDULE, architecture=RESNET_ARCHITECTURE, domain="full"),
        Preset(
            "WRN-40-4", epochs=200, lr=0.1, schedule=WRN_SCHEDULE, architecture=RESNET_ARCHITECTURE, nesterov=True, domain="full"
        ),
    ),
    "laptop": (
        Preset(
            "LeNet",
            epochs=4,
            lr=0.02,
            schedule=LENET_SCHEDULE,
            architecture={
                ("DARTS", NORMAL): Architecture(1e-1, perturb=0.1),
                ("DARTS", PERMUTED): Architecture(1e-1, warmup=1, perturb=0.1),
                ("XD", NORMAL): Architecture(2e-4),
                ("XD", PERMUTED): Architecture(2e-3),
            },
            batch_size=64,
            train=50_000,
            test=10_000,
            held_out=5_000,
            tried=THREE,
        ),
        Preset(
            "ResNet-8",
            epochs=4,
            lr=0.1,
            schedule=ScheduleSettings("cosine"),
            architecture={
                ("DARTS", NORMAL): Architecture(1e-3, perturb=0.1),
                ("XD", NORMAL): Architecture(2e-4),
                ("DARTS", PERMUTED): Architecture(1e-1, perturb=0.1),
                ("XD", PERMUTED): Architecture(2e-3),
            },
            batch_size=64,
            train=50_000,
            test=10_000,
            held_out=5_000,
            tried=Tried(weights=(1.0, 0.5)),
            warmups=(0, 2),
            seeds=(0, 1),
        ),
    ),
}
