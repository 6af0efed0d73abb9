"""Every setting of the three equations, at two scales.

paper: as published (section 5 and the appendix on PDEs). laptop: the same code on less data, narrower networks and fewer epochs,
meant for two cores. There every row has as many candidates as the others, of which held-out training samples choose: step sizes of
the weights for networks as they are, of the architecture for those that are searched, and of both for Navier-Stokes and for
Burgers' equation at 256 points.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.pde.burgers import BurgersSettings
from xdops.pde.darcy import DarcySettings
from xdops.pde.dataset import Settings
from xdops.pde.navier_stokes import NavierStokesSettings
from xdops.reproduce.candidates import FOUR, ONE, THREE, Tried
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings


@dataclass(frozen=True)
class Method:
    """The backbone, the space over it, and what it has of its own in the place of the preset's."""

    backbone: Literal["cnn", "fno"]
    space: str
    own: Mapping[str, Any] = field(default_factory=dict)


#: Where operations are as large as their inputs, and as the reference pads them, to powers of two: there a circular layer of
#: another length starts as one with zeros around.
WITH_B_AND_C, POWERS_OF_TWO = "CNN XD, b and C", "CNN XD, powers of two"
METHODS = {
    "CNN": Method("cnn", "backbone"),
    "FNO": Method("fno", "backbone"),
    "CNN DARTS": Method("cnn", "darts"),
    "CNN XD": Method("cnn", "xd"),
    WITH_B_AND_C: Method("cnn", "xd", {"trained_b_and_C": True}),
    POWERS_OF_TWO: Method("cnn", "xd", {"as_reference": True}),
    "FNO XD": Method("fno", "xd"),
}


@dataclass(frozen=True)
class Preset:
    """One equation at one scale. every: resolution -> which of the data's points make it."""

    data: Settings
    train: int
    test: int
    every: Mapping[int, int]
    width: int
    modes: tuple[int, ...]
    kernel: int | tuple[int, ...]  # of the CNN
    epochs: int
    batch_size: int
    lr: float
    architecture: Mapping[str, OptimizerSettings]  # by method, of those that search
    own_lr: Mapping[str, float] = field(default_factory=dict)  # in the place of lr where candidates are made, by method
    warmup: Mapping[str, int] = field(default_factory=dict)
    schedule: ScheduleSettings = field(default_factory=lambda: ScheduleSettings("step", (0.2, 0.4, 0.6, 0.8), 0.5))
    trained_b_and_C: bool = False
    as_reference: bool = False  # operations circular at the next power of two, which the data are padded to
    domain: Domain = DEFAULT_DOMAIN
    scaled: bool = True
    seeds: tuple[int, ...] = (0,)
    methods: tuple[str, ...] = ("CNN", "FNO", "CNN XD", "FNO XD")
    held_out: int = 0  # training samples for validation; then the test samples are a solver's run of their own
    tried: Tried = ONE
    at: Mapping[tuple[int, str], Mapping[str, Any]] = field(default_factory=dict)  # what a resolution's method has in its place

    def at_resolution(self, resolution: int, method: str) -> "Preset":
        return replace(self, **self.at.get((resolution, method), {}))

    def candidates(self, method: str) -> dict[str, "Preset"]:
        """This preset with every step size that a row chooses from, by what is said of it."""
        base = self.own_lr.get(method, self.lr)
        if method not in self.architecture:
            return {name: replace(self, lr=lr) for name, lr in self.tried.steps_of_weights(base).items()}
        own = self.architecture[method]
        return {
            name: replace(self, lr=weights, architecture={**self.architecture, method: replace(own, lr=lr)})
            for name, (weights, lr) in self.tried.steps_of_both(base, own.lr).items()
        }

    def search(self, method: str) -> SearchSettings:
        """Only the architecture's optimizer and warm-up depend on the method."""
        return SearchSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=OptimizerSettings("adam", self.lr, weight_decay=WEIGHT_DECAY),
            architecture=self.architecture.get(method, adam(self.lr)),
            schedule=self.schedule,
            warmup=self.warmup.get(method, 0),
        )

    def of(self, method: str) -> "Preset":
        """With what the method has of its own."""
        return replace(self, **METHODS[method].own)

    def network(self, method: str) -> dict[str, Any]:
        """What determines the method's network, as JSON data."""
        own = self.of(method)
        return {"width": self.width, "modes": list(self.modes), "kernel": self.kernel} | {
            "trained_b_and_C": own.trained_b_and_C,
            "domain": self.domain,
            **({"as_reference": True} if own.as_reference else {}),
        }


WEIGHT_DECAY = 1e-4  # of the architecture too


def adam(lr: float) -> OptimizerSettings:
    return OptimizerSettings("adam", lr, weight_decay=WEIGHT_DECAY)


def momentum(lr: float) -> OptimizerSettings:
    return OptimizerSettings("sgd", lr, momentum=0.5, weight_decay=WEIGHT_DECAY)


BURGERS = {
    "paper": Preset(
        BurgersSettings(),
        train=1000,
        test=100,
        every={8192 // k: k for k in (32, 16, 8, 4, 2, 1)},
        width=64,
        modes=(16,),
        kernel=17,
        epochs=500,
        batch_size=20,
        domain="full",
        as_reference=True,
        lr=1e-3,
        architecture={"CNN XD": adam(1e-3), "FNO XD": momentum(1e-4)},
        warmup={"FNO XD": 250},
        trained_b_and_C=True,
        scaled=False,
    ),
    "laptop": Preset(
        BurgersSettings(samples=1100, size=1024),
        train=1000,
        test=100,
        every={256: 4, 512: 2, 1024: 1},
        width=16,
        modes=(16,),
        kernel=17,
        epochs=40,
        batch_size=10,
        lr=1e-3,
        architecture={"CNN XD": adam(1e-3), WITH_B_AND_C: adam(1e-3), "FNO XD": momentum(1e-4)},
        warmup={"FNO XD": 20},
        schedule=ScheduleSettings("cosine"),
        scaled=False,
        seeds=(0, 1),
        held_out=100,
        tried=THREE,
        at={
            (resolution, method): {"lr": 2e-3, "own_lr": {"FNO": 8e-3, "FNO XD": 4e-3}, "tried": FOUR}
            for resolution in (256, 512, 1024)
            for method in ("CNN", "FNO", "CNN XD", WITH_B_AND_C, "FNO XD")
        },
        methods=("CNN", "FNO", "CNN XD", WITH_B_AND_C, "FNO XD"),
    ),
}

DARCY = {
    "paper": Preset(
        DarcySettings(),
        train=1000,
        test=100,
        every={85: 5, 106: 4, 141: 3, 211: 2, 421: 1},
        width=32,
        modes=(12, 12),
        kernel=13,
        epochs=500,
        batch_size=20,
        domain="full",
        as_reference=True,
        lr=1e-3,
        architecture={"CNN XD": momentum(1e-1), "FNO XD": momentum(1e-1), "CNN DARTS": adam(1e-3)},
        methods=("CNN", "FNO", "CNN DARTS", "CNN XD", "FNO XD"),
    ),
    "laptop": Preset(
        DarcySettings(samples=600, size=141, solver_size=421),
        train=500,
        test=100,
        every={21: 7, 36: 4},
        width=16,
        modes=(6, 6),
        kernel=7,
        epochs=60,
        batch_size=10,
        lr=1e-3,
        architecture={"CNN XD": adam(1e-3), POWERS_OF_TWO: adam(1e-3), "CNN DARTS": adam(1e-3)},
        schedule=ScheduleSettings("cosine"),
        seeds=(0, 1),
        held_out=60,
        tried=THREE,
        methods=("CNN", "FNO", "CNN DARTS", "CNN XD", POWERS_OF_TWO),
        at={(36, method): {"epochs": 30} for method in ("CNN", "FNO", "CNN DARTS", "CNN XD", POWERS_OF_TWO)},
    ),
}

#: scale -> one preset for each viscosity; the resolution is that of the data.
NAVIER_STOKES: dict[str, tuple[Preset, ...]] = {
    "paper": tuple(
        Preset(
            solver,
            train=1000,
            test=200,
            every={64: 1},
            width=20,
            modes=modes,
            kernel=9,
            epochs=500,
            batch_size=10,
            domain="full",
            as_reference=True,
            lr=2.5e-3,
            architecture={"CNN XD": momentum(lr)},
            methods=("CNN", "FNO", "CNN XD"),
        )
        for solver, modes, lr in (
            (NavierStokesSettings(), (8, 8, 8), 5e-3),
            (NavierStokesSettings(viscosity=1e-5, time=20.0), (8, 8, 4), 1e-3),
        )
    ),
    "laptop": tuple(
        Preset(
            NavierStokesSettings(samples=240, size=32, solver_size=64, viscosity=viscosity, time=20.0, step=1e-2),
            train=200,
            test=40,
            every={16: 2},
            width=8,
            modes=(4, 4, 4),
            kernel=5,
            epochs=60,
            batch_size=10,
            lr=5e-3,
            own_lr={"FNO": 1e-2},
            architecture={"CNN XD": adam(2.5e-3)},
            schedule=ScheduleSettings("cosine"),
            seeds=(0, 1),
            held_out=20,
            tried=FOUR,
            methods=("CNN", "FNO", "CNN XD"),
        )
        for viscosity in (1e-4, 1e-5)
    ),
}
