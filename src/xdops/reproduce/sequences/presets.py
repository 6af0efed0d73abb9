"""Every setting of the sequence experiments, at two scales.

paper: as published (section 7, Table 12) and as the TCN's own scripts have it. laptop: the same code for fewer epochs and, but for
JSB Chorales, on a part of the data and with smaller networks. There every row has three candidates, of which the validation part
chooses: half, once and twice the paper's step size of the weights for networks as they are; a third, once and three times a step
size of the architecture for those that are searched, whose weights take the paper's steps.
"""

from dataclasses import dataclass, replace
from typing import Literal

from xdops.convert import XDConfig
from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.reproduce.candidates import ONE, THREE, Tried
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings

JSB, NOTTINGHAM, MNIST, TREEBANK = "JSB Chorales", "Nottingham", "permuted MNIST", "Penn Treebank"

#: How an operation is kept from the future: `filters` are shift-invariant, `direct` is masked at absolute positions, `windows` make
#: every prediction from the last steps alone. `free` operations look everywhere, for a whole sequence that is classified; `half`
#: ones too, in half the domain.
Way = Literal["filters", "direct", "windows", "free", "half"]

#: method -> whether the backbone is dilated, and how its layers are searched, None: not at all; "" stands for the preset's own way.
METHODS: dict[str, tuple[bool, str | None]] = {
    "undilated TCN": (False, None),
    "undilated TCN XD": (False, ""),
    "TCN": (True, None),
    "TCN XD": (True, ""),
    "undilated TCN, filters XD": (False, "filters"),
    "undilated TCN, direct XD": (False, "direct"),
    "undilated TCN, windows XD": (False, "windows"),
    "undilated TCN, half domain XD": (False, "half"),
}
MAIN = ("undilated TCN", "undilated TCN XD", "TCN", "TCN XD")


@dataclass(frozen=True)
class Architecture:
    """How operations learn: Adam's step size and the epochs before they begin to."""

    lr: float
    warmup: int = 0


@dataclass(frozen=True)
class Preset:
    """One data set at one scale."""

    data: str
    levels: int
    kernel: int
    width: int
    epochs: int
    weights: OptimizerSettings
    schedule: ScheduleSettings
    architecture: dict[str, Architecture]  # by way
    way: Way
    depth: tuple[int, int, int] = (1, 3, 1)
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    batch_size: int = 1
    eval_batch_size: int = 16
    clip: float | None = 0.4
    span: int = 32  # of filters
    window: int = 40  # of windows, and of the words that count
    more: tuple[str, ...] = ()  # methods beside the four main ones
    examples: int | None = None  # training examples (pieces, images, words), None: all
    held_out: int | None = None  # validation and test examples each, None: all
    longest: int | None = None  # pieces are cut to so many steps
    side: int = 28  # of the digits, which are averaged down to it
    part: str = ""  # in words, what of the data it is
    seeds: tuple[int, ...] = (0, 1, 2)
    tried: Tried = ONE

    def methods(self) -> tuple[str, ...]:
        return (*MAIN, *self.more)

    def way_of(self, method: str) -> str | None:
        way = METHODS[method][1]
        return self.way if way == "" else way

    def candidates(self, method: str) -> dict[str, "Preset"]:
        """This preset with every step size that a method's row chooses from, by what is said of it."""
        way = self.way_of(method)
        if way is None:
            steps = self.tried.steps_of_weights(self.weights.lr)
            return {name: replace(self, weights=replace(self.weights, lr=lr)) for name, lr in steps.items()}
        own = self.architecture[way]
        steps = self.tried.steps_of_architecture(own.lr)
        return {name: replace(self, architecture=self.architecture | {way: replace(own, lr=lr)}) for name, lr in steps.items()}

    def config(self, way: str) -> XDConfig:
        if way == "filters":
            return XDConfig(depth=self.depth, shift_invariant=True, span=self.span, causal=True, pointwise=False)
        domain: Domain = "half" if way == "half" else DEFAULT_DOMAIN
        return XDConfig(depth=self.depth, causal=way == "direct", domain=domain, pointwise=False)

    def search(self, method: str) -> SearchSettings:
        way = self.way_of(method)
        own = Architecture(1e-3) if way is None else self.architecture[way]
        return SearchSettings(
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=self.weights,
            architecture=OptimizerSettings("adam", own.lr),
            schedule=self.schedule,
            warmup=own.warmup,
            clip=self.clip,
            clip_architecture=False,
            eval_batch_size=self.eval_batch_size,
        )


#: After epoch 10, a tenth whenever the validation loss exceeds the largest of the last three.
MUSIC_SCHEDULE = ScheduleSettings("plateau", factor=0.1, patience=3, after=10)

_JSB = Preset(
    JSB,
    levels=3,
    kernel=2,
    width=150,
    epochs=100,
    weights=OptimizerSettings("adam", 1e-3),
    schedule=MUSIC_SCHEDULE,
    architecture={"windows": Architecture(2e-4, warmup=25), "filters": Architecture(1e-3, 5), "direct": Architecture(2e-4, 10)},
    way="windows",
    dropout=0.5,
    more=("undilated TCN, filters XD", "undilated TCN, direct XD"),
)
_NOTTINGHAM = replace(
    _JSB,
    data=NOTTINGHAM,
    levels=4,
    kernel=6,
    dropout=0.2,
    architecture={"windows": Architecture(2e-3), "filters": Architecture(1e-3), "direct": Architecture(2e-4)},
)
_MNIST = Preset(
    MNIST,
    levels=8,
    kernel=7,
    width=25,
    epochs=20,
    weights=OptimizerSettings("adam", 2e-3),
    schedule=ScheduleSettings("step", (10,), 0.1),
    architecture={"free": Architecture(2e-4), "half": Architecture(2e-4)},
    way="free",
    depth=(3, 3, 3),
    batch_size=64,
    eval_batch_size=250,
    clip=None,
)
_TREEBANK = Preset(
    TREEBANK,
    levels=4,
    kernel=3,
    width=600,
    epochs=100,
    weights=OptimizerSettings("sgd", 4.0),
    schedule=ScheduleSettings("plateau", factor=0.5, patience=5, after=5),
    architecture={"windows": Architecture(2e-6), "filters": Architecture(2e-4)},
    way="windows",
    dropout=0.5,
    embedding_dropout=0.25,
    batch_size=16,
)

PRESETS: dict[str, tuple[Preset, ...]] = {
    "paper": (_JSB, _NOTTINGHAM, _MNIST, _TREEBANK),
    "laptop": (
        replace(
            _JSB, epochs=40, way="filters", more=("undilated TCN, direct XD", "undilated TCN, windows XD"),
            architecture=_JSB.architecture | {"windows": Architecture(2e-4, 10)}, seeds=(0, 1), tried=THREE,
        ),
        replace(
            _NOTTINGHAM, epochs=10, way="filters", more=(), examples=200, held_out=60, longest=200, span=64,
            part="200 pieces", seeds=(0, 1), tried=THREE,
        ),
        replace(
            _MNIST, levels=6, epochs=6, schedule=ScheduleSettings("step", (4,), 0.1), examples=2000, held_out=1000, side=14,
            part="2,000 of 14 x 14",
            more=("undilated TCN, half domain XD",),
            architecture={"free": Architecture(1e-3), "half": Architecture(1e-3)}, seeds=(0, 1), tried=THREE,
        ),
        replace(
            _TREEBANK, width=64, levels=3, epochs=5, way="filters", dropout=0.2, embedding_dropout=0.1, examples=100_000,
            held_out=40_000, part="100,000 words", seeds=(0, 1), tried=THREE,
        ),
    ),
}  # fmt: skip
