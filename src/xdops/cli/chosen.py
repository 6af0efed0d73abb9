"""Which network of a finished search a command is about: the fields and refusals that such commands share."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from xdops.backbones.build import is_foreign
from xdops.cli.door import one_line
from xdops.errors import XDError
from xdops.experiments.finished import Finished


@dataclass(frozen=True)
class Chosen:
    """A finished run of a search."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The --out folder of a search."""
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
        if not self.trust_run:
            return Finished.open(self.run_folder, self.backbone)
        named = Finished.named_backbone(self.run_folder)
        if is_foreign(named):
            warning = f"warning: importing {named}, which {self.run_folder} names: its author's code runs"
            print(f"xdops: {one_line(warning)}", file=sys.stderr)
        return Finished.open(self.run_folder, named)

    def choose(self, finished: Finished) -> tuple[str, int]:
        return choose_run(finished, self.space, self.seed)


def choose_run(finished: Finished, space: str | None, seed: int | None) -> tuple[str, int]:
    """The finished run that was asked for, or the best on validation among those that fit."""
    runs = finished.runs()
    fitting = [(s, k) for s, k in runs if space in (None, s) and seed in (None, k)]
    if not fitting:
        asked = " ".join([f"--space {space}"] * (space is not None) + [f"--seed {seed}"] * (seed is not None))
        there = ", ".join(f"{s} seed {k}" for s, k in runs)
        raise XDError(
            f"{asked or 'a search without a finished run'} in {finished.out}", there or "a finished run", "xdops search --resume"
        )
    sign = 1 if finished.result(*fitting[0]).higher_is_better else -1
    return max(fitting, key=lambda run: sign * finished.result(*run).best_validation)
