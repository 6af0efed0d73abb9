"""Which network of a finished search a command is about: the fields and refusals that such commands share."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from xdops.backbones.build import is_foreign
from xdops.cli.door import one_line
from xdops.cli.places import find_place
from xdops.errors import XDError
from xdops.experiments.finished import Finished
from xdops.experiments.folder import SETTINGS, run_folder
from xdops.storage.lock import lock
from xdops.storage.mirror import Mirror
from xdops.storage.place import Place, naming


@dataclass(frozen=True)
class Chosen:
    """A finished run of a search."""

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The --out folder or URL of a search."""
    space: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = field(default=None, kw_only=True)
    """backbone, darts or xd. Default: whichever was best on validation."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = field(default=None, kw_only=True)
    """Which seed's network. Default: whichever was best on validation."""
    backbone: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION", help_behavior_hint="")] = field(
        default=None, kw_only=True
    )
    """The run's own network, where it is not one of xdops: imported only if you name it here as it was named to the search."""
    trust_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = field(default=False, kw_only=True)
    """Import whatever network the run names. It is code, which may do anything: only for runs whose author you trust."""

    def open_run(self) -> Finished:
        place = reading_place(self.run_folder)
        with fetching(place):
            if place.mirror is not None:
                place.mirror.pull(wanted=lambda name: name.endswith(".json"))
            return self._open(place.folder)

    def _open(self, folder: Path) -> Finished:
        if not self.trust_run:
            return Finished.open(folder, self.backbone)
        named = Finished.named_backbone(folder)
        if is_foreign(named):
            warning = f"warning: importing {named}, which {self.run_folder} names: its author's code runs"
            print(f"xdops: {one_line(warning)}", file=sys.stderr)
        return Finished.open(folder, named)

    def choose(self, finished: Finished) -> tuple[str, int]:
        """Which run; of one at a URL its best weights are fetched, too."""
        place = reading_place(self.run_folder)
        with fetching(place):
            space, seed = choose_run(finished, self.space, self.seed)
            if place.mirror is not None:
                name = run_folder(place.folder, space, seed).relative_to(place.folder).as_posix()
                place.mirror.below(name).pull(wanted=lambda name: "/best-" in name)
        return space, seed


def reading_place(run: str) -> Place:
    """Where a finished search is read: in its folder, or in a copy that no search works in."""
    place = find_place(run, "RUN")
    if place.mirror is None:
        return place
    mirror = Mirror.of(place.mirror.url, "reading")
    return Place(mirror.folder, mirror)


@contextmanager
def fetching(place: Place) -> Iterator[None]:
    """While a copy is brought up to date, one process at a time; nothing to do for a folder."""
    if place.mirror is None:
        yield
        return
    with naming(place.mirror):
        if SETTINGS not in place.mirror.store().names():
            raise XDError(f"{place}, which holds no {SETTINGS}", "the --out of `xdops search`", "xdops search DATA --out runs/mine")
        with lock(place.folder, wait=math.inf):
            yield


def choose_run(finished: Finished, space: str | None, seed: int | None) -> tuple[str, int]:
    """The finished run that was asked for, or the best on validation among those that fit."""
    runs = finished.runs()
    fitting = [(s, k) for s, k in runs if space in (None, s) and seed in (None, k)]
    if not fitting:
        asked = " ".join([f"--space {space}"] * (space is not None) + [f"--seed {seed}"] * (seed is not None))
        there = ", ".join(f"{s} seed {k}" for s, k in runs)
        raise XDError(
            f"{asked or 'a search without a finished run'} in {finished.out}",
            there or "a finished run",
            "one of these" if there else "the command of that search once more, with --resume, or to wait for it if it is running",
        )
    sign = 1 if finished.result(*fitting[0]).higher_is_better else -1
    return max(fitting, key=lambda run: sign * finished.result(*run).best_validation)
