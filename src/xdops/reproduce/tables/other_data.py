"""Public data that nothing here was tuned for, by the defaults of `xdops search` and by what `xdops search --trials` would try."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial

import torch

from xdops.backbones import build_backbone
from xdops.convert import XDConfig
from xdops.data.own import DataSettings, task_from_arrays
from xdops.data.packages import FROM_PACKAGES
from xdops.data.split import Arrays
from xdops.data.task import Task
from xdops.experiments.network import NetworkSettings
from xdops.experiments.ranges import matter, read_ranges, with_values
from xdops.experiments.recipes import RECIPES, TrainingRecipe
from xdops.reproduce.table import Context, Prepared, Row, SearchRow, Table, chosen_among
from xdops.reproduce.tables.domains import ERROR, searched
from xdops.search import OptimizerSettings, ScheduleSettings, SearchSettings
from xdops.spaces import SpaceSettings, apply

#: As the command calls them -> as the tables do.
SPACES = {"backbone": "backbone", "darts": "DARTS", "xd": "XD"}
DEFAULTS, TUNED = "defaults", "tuned"
#: XD whose operations move, but stay the same at every position. Not among the spaces of the command: the row says why XD loses.
INVARIANT = "XD, the same everywhere"
#: Which of the data are series, on which it is tried.
SERIES = ("Italian power demand", "leaf outlines")
TRIALS = 6
DEPTH = (3, 3, 3)

#: What each is, as the data are called, and the kind of task, which says what the defaults are.
KINDS = {
    "Italian power demand": "classification",
    "leaf outlines": "classification",
    "textures": "classification",
    "afternoons": "dense",
}


def load(name: str, read: Callable[[], Arrays]) -> Task:
    """As the command would read them from a file; classes are reported by their errors, so that less is better everywhere."""
    task = task_from_arrays(read(), name, DataSettings())
    assert task.kind == KINDS[name]
    if task.kind == "classification":
        task = dataclasses.replace(task, problem=dataclasses.replace(task.problem, metric=ERROR))
    return task


def default_search(recipe: TrainingRecipe, space: str) -> SearchSettings:
    lr = recipe.own.get(space, {}).get("lr", recipe.lr)
    return SearchSettings(
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        weights=OptimizerSettings("adam", lr),
        architecture=OptimizerSettings("adam", recipe.arch_lr),
        schedule=ScheduleSettings("cosine"),
    )


def prepare(task: Callable[[], Task], space: str, settings: SearchSettings, backbone: str, seed: int) -> Prepared:
    network = NetworkSettings(backbone, DEPTH)
    return Prepared(task().problem, network.build(task().request, space, seed), settings, {"space": space, **network.to_dict()})


def prepare_invariant(task: Callable[[], Task], settings: SearchSettings, backbone: str, seed: int) -> Prepared:
    request = task().request
    network = build_backbone(backbone, request, seed)
    config = XDConfig(depth=DEPTH, shift_invariant=True, pointwise=False)
    apply("xd", network, torch.zeros(2, *request.input_shape), SpaceSettings(config))
    return Prepared(task().problem, network, settings, {"space": INVARIANT, **NetworkSettings(backbone, DEPTH).to_dict()})


def invariant(name: str, task: Callable[[], Task], recipe: TrainingRecipe) -> Row:
    settings = default_search(recipe, "xd")
    return SearchRow(
        method=INVARIANT,
        setting={"data": name, "settings": DEFAULTS},
        seeds=tuple(range(recipe.seeds)),
        settings=searched(settings, backbone=recipe.backbone, depth=list(DEPTH), shift_invariant=True),
        prepare=partial(prepare_invariant, task, settings, recipe.backbone),
        report="best",
    )


def tried(settings: SearchSettings, space: str) -> dict[str, SearchSettings]:
    """The points that --trials would try, by their values."""
    found = {}
    for point in read_ranges(None).points(TRIALS, seed=0):
        values = matter(point, architecture=space != "backbone")
        found[", ".join(f"{name} {value:.2g}" for name, value in values.items())] = with_values(settings, values)
    return found


def row(name: str, task: Callable[[], Task], recipe: TrainingRecipe, space: str, how: str) -> Row:
    settings = default_search(recipe, space)
    candidates = {
        said: SearchRow(
            method=SPACES[space],
            setting={"data": name, "settings": how},
            seeds=tuple(range(recipe.seeds)),
            settings=searched(own, backbone=recipe.backbone, depth=list(DEPTH)),
            prepare=partial(prepare, task, space, own, recipe.backbone),
            report="best",
        )
        for said, own in (tried(settings, space) if how == TUNED else {"": settings}).items()
    }
    return chosen_among(candidates)


def rows(
    context: Context, data: Mapping[str, Callable[[], Arrays]] = FROM_PACKAGES, recipes: Mapping[str, TrainingRecipe] | None = None
) -> list[Row]:
    """Defaults first: they are what a user gets."""
    own = recipes or {str(kind): recipe for kind, recipe in RECIPES.items()}
    tasks = {name: cache(partial(load, name, read)) for name, read in data.items()}
    by_default, tuned = (
        [row(name, task, own[KINDS[name]], space, how) for name, task in tasks.items() for space in SPACES]
        for how in (DEFAULTS, TUNED)
    )
    return [*by_default, *(invariant(name, tasks[name], own[KINDS[name]]) for name in SERIES if name in tasks), *tuned]


NOTE = f"""Data that come inside of Python packages (`pip install --no-deps aeon scikit-image`, read by `xdops.data.packages`),
and for which nothing in xdops was chosen. Italian power demand: 1,096 days of 24 hours, winter or summer. Leaf outlines
(OSULeaf): 442 series of 427 points, six species. Textures: 1,323 patches of 12 x 12 pixels of photographs of brick, grass and
gravel. Afternoons: the days of Italian power demand again, the second twelve hours asked for, given the first. All are divided at
random, 70, 15 and 15 percent. `{DEFAULTS}`: what `xdops search data.npz` does. `{TUNED}`: each space chooses on validation, with
the first seed, among the first {TRIALS} points that `xdops search data.npz --trials {TRIALS}` tries, here all trained to the end.
`{INVARIANT}`: by the same defaults, `XDConfig(shift_invariant=True)`, on the two sets of series. It was added
when XD had lost on leaf outlines, as one of seven variants that were tried on the validation part: an outline may begin anywhere,
and XD-operations are free to do something else at every position. It also has a twelfth of the architecture's parameters: which of
both helps is not told apart.
Share of wrong classes, relative L2 error of the afternoons, on the test part at the best validation epoch. Wins and losses alike;
the same at both scales."""

TABLE = Table(
    "other-data",
    "Other data",
    "no counterpart",
    "test error",
    rows,
    percent=True,
    notes={"laptop": NOTE, "paper": NOTE},
)
